(* InfoNCE with N candidates never says that there are more than log N nats of information. The law is one of finitely
   many cases; n is any number, so also that of the candidates, 1 + length others, if all cases have as many. *)

Require Import Reals List Lra.
Import ListNotations.
Open Scope R_scope.

Definition exponentials (others : list R) : R := fold_right (fun x sum => exp x + sum) 0 others.
Definition softmax (target : R) (others : list R) : R := exp target / (exp target + exponentials others).

(* What may be drawn: its probability, the score of the true pair, and those of the others. *)
Definition case : Type := R * (R * list R).
Definition mean (value : R * list R -> R) (law : list case) : R :=
  fold_right (fun one sum => fst one * value (snd one) + sum) 0 law.

Definition is_law (law : list case) : Prop :=
  Forall (fun one => 0 <= fst one) law /\ mean (fun _ => 1) law = 1.

Definition cross_entropy (law : list case) : R := mean (fun one => - ln (softmax (fst one) (snd one))) law.
Definition info_nce (n : nat) (law : list case) : R := ln (INR n) - cross_entropy law.

Lemma exponentials_positive : forall others, 0 <= exponentials others.
Proof. induction others as [| x rest IH]; simpl; [lra | pose proof (exp_pos x); unfold exponentials in *; lra]. Qed.

Lemma surprise : forall target others, 0 <= - ln (softmax target others).
Proof.
  intros target others. pose proof (exp_pos target). pose proof (exponentials_positive others).
  assert (at_most : softmax target others <= 1).
  { unfold softmax. apply Rmult_le_reg_r with (exp target + exponentials others); [lra |].
    field_simplify; lra. }
  assert (0 < softmax target others) by (unfold softmax; apply Rdiv_lt_0_compat; lra).
  rewrite <- Ropp_0. apply Ropp_le_contravar. rewrite <- ln_1.
  destruct at_most as [less | same]; [left; apply ln_increasing; lra | right; rewrite same; reflexivity].
Qed.

Lemma cross_entropy_positive : forall law, Forall (fun one => 0 <= fst one) law -> 0 <= cross_entropy law.
Proof.
  intros law weights. induction weights as [| [weight [target others]] rest low _ IH]; unfold cross_entropy in *; simpl in *.
  - lra.
  - pose proof (Rmult_le_pos weight _ low (surprise target others)). unfold mean in *. lra.
Qed.

Theorem info_nce_bound : forall n law, is_law law -> info_nce n law <= ln (INR n).
Proof. intros n law [weights _]. unfold info_nce. pose proof (cross_entropy_positive law weights). lra. Qed.

(* The reciprocal rank is at least the softmax: a cross entropy bounds the logarithm of a rank. *)

Require Import Reals List Lra.
Import ListNotations.
Open Scope R_scope.

Definition beats (target other : R) : bool := if Rle_dec target other then true else false.

(* The rank of the target among all, ties against it. *)
Definition rank (target : R) (others : list R) : R := 1 + INR (length (filter (beats target) others)).

Definition exponentials (others : list R) : R := fold_right (fun x sum => exp x + sum) 0 others.
Definition softmax (target : R) (others : list R) : R := exp target / (exp target + exponentials others).

Lemma exponentials_positive : forall others, 0 <= exponentials others.
Proof. induction others as [| x rest IH]; simpl; [lra | pose proof (exp_pos x); unfold exponentials in *; lra]. Qed.

Lemma exp_increases : forall x y, x <= y -> exp x <= exp y.
Proof. intros x y [less | same]; [left; apply exp_increasing, less | right; rewrite same; reflexivity]. Qed.

Lemma each_counts : forall target others,
  exp target * INR (length (filter (beats target) others)) <= exponentials others.
Proof.
  intros target others. induction others as [| x rest IH]; simpl.
  - lra.
  - pose proof (exp_pos x). unfold beats at 1. destruct (Rle_dec target x) as [above | below].
    + cbn [length]. rewrite S_INR. pose proof (exp_increases target x above). unfold exponentials in *. lra.
    + unfold exponentials in *. lra.
Qed.

Lemma rank_at_least_one : forall target others, 1 <= rank target others.
Proof. intros. unfold rank. pose proof (pos_INR (length (filter (beats target) others))). lra. Qed.

Theorem reciprocal_rank : forall target others, softmax target others <= / rank target others.
Proof.
  intros target others. unfold softmax.
  pose proof (exp_pos target) as positive. pose proof (exponentials_positive others).
  pose proof (each_counts target others). pose proof (rank_at_least_one target others).
  apply Rmult_le_reg_r with (rank target others * (exp target + exponentials others)).
  - apply Rmult_lt_0_compat; lra.
  - field_simplify; [unfold rank in *; lra | lra | lra].
Qed.

(* Other rules for ties give no greater rank. *)
Corollary any_rank : forall target others r, 1 <= r <= rank target others -> softmax target others <= / r.
Proof.
  intros target others r [low high]. apply Rle_trans with (/ rank target others).
  - apply reciprocal_rank.
  - apply Rinv_le_contravar; lra.
Qed.

Corollary log_rank : forall target others, ln (rank target others) <= - ln (softmax target others).
Proof.
  intros target others. pose proof (rank_at_least_one target others) as at_least.
  rewrite <- (Ropp_involutive (ln (rank target others))). apply Ropp_le_contravar.
  rewrite <- ln_Rinv by lra.
  assert (0 < softmax target others).
  { unfold softmax. pose proof (exp_pos target). pose proof (exponentials_positive others).
    apply Rdiv_lt_0_compat; lra. }
  destruct (reciprocal_rank target others) as [less | same].
  - left. apply ln_increasing; assumption.
  - right. rewrite same. reflexivity.
Qed.

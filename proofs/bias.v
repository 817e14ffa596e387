(* No estimator of the softmax that reads fewer than all n negatives is unbiased.

   With a_i = exp(logit of negative i - logit of the target) the softmax of the target is F(a) = 1 / (1 + sum a).
   The expected value of an estimator is a sum over the sets of negatives that it may have read, each term a function of
   those negatives alone, whatever else is random. If each set leaves out a negative, the mixed difference of that sum
   over a box is 0; that of F is not. *)

Require Import Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
Require Import List.
Import ListNotations.
Open Scope R_scope.

Definition total (a : list R) : R := fold_right Rplus 0 a.
Definition softmax (a : list R) : R := / (1 + total a).

(* A box: for each negative the lower end and the length of its side. *)
Fixpoint vertex (box : list (R * R)) (a : list R) : Prop :=
  match box, a with
  | [], [] => True
  | (l, h) :: rest, x :: others => (x = l \/ x = l + h) /\ vertex rest others
  | _, _ => False
  end.

(* The mixed difference over its vertices. *)
Fixpoint mixed (g : list R -> R) (box : list (R * R)) : R :=
  match box with
  | [] => g []
  | (l, h) :: rest => mixed (fun a => g ((l + h) :: a)) rest - mixed (fun a => g (l :: a)) rest
  end.

Definition ignores (i : nat) (g : list R -> R) : Prop :=
  forall before x y after, length before = i -> g (before ++ x :: after) = g (before ++ y :: after).

Definition reads_fewer (n : nat) (g : list R -> R) : Prop := exists i, (i < n)%nat /\ ignores i g.

Definition expected (terms : list (list R -> R)) (a : list R) : R :=
  fold_right (fun g sum => g a + sum) 0 terms.

Lemma mixed_vertices : forall box g g',
  (forall a, vertex box a -> g a = g' a) -> mixed g box = mixed g' box.
Proof.
  induction box as [| [l h] rest IH]; intros g g' same; simpl.
  - apply same. exact I.
  - f_equal; apply IH; intros a at_vertex; apply same; simpl; auto.
Qed.

Lemma mixed_plus : forall box g g', mixed (fun a => g a + g' a) box = mixed g box + mixed g' box.
Proof.
  induction box as [| [l h] rest IH]; intros g g'; simpl.
  - reflexivity.
  - rewrite (IH (fun a => g ((l + h) :: a))), (IH (fun a => g (l :: a))). ring.
Qed.

Lemma mixed_zero : forall box, mixed (fun _ => 0) box = 0.
Proof. induction box as [| [l h] rest IH]; simpl; [reflexivity | rewrite IH; ring]. Qed.

Lemma mixed_ignores : forall box i g, (i < length box)%nat -> ignores i g -> mixed g box = 0.
Proof.
  induction box as [| [l h] rest IH]; intros i g inside ignored; simpl in *.
  - lia.
  - destruct i as [| i].
    + rewrite (mixed_vertices rest (fun a => g ((l + h) :: a)) (fun a => g (l :: a))).
      * ring.
      * intros a _. apply (ignored [] (l + h) l a). reflexivity.
    + assert (each : forall x, ignores i (fun a => g (x :: a))).
      { intros x before y z after size. apply (ignored (x :: before) y z after). simpl. lia. }
      rewrite (IH i _ ltac:(lia) (each (l + h))), (IH i _ ltac:(lia) (each l)). ring.
Qed.

Lemma mixed_expected : forall terms box,
  Forall (reads_fewer (length box)) terms -> mixed (expected terms) box = 0.
Proof.
  induction terms as [| g terms IH]; intros box fewer.
  - apply mixed_zero.
  - inversion fewer as [| ? ? [i [inside ignored]] others]; subst.
    unfold expected. simpl. rewrite mixed_plus, (mixed_ignores box i g inside ignored).
    fold (expected terms). rewrite (IH box others). ring.
Qed.

(* Repeated differences of a function of one number. *)
Fixpoint delta (f : R -> R) (steps : list R) (s : R) : R :=
  match steps with
  | [] => f s
  | h :: rest => delta f rest (s + h) - delta f rest s
  end.

Lemma mixed_delta : forall f box c,
  mixed (fun a => f (c + total a)) box = delta f (map snd box) (c + total (map fst box)).
Proof.
  intros f. induction box as [| [l h] rest IH]; intros c.
  - reflexivity.
  - assert (each : forall x, mixed (fun a => f (c + total (x :: a))) rest
      = delta f (map snd rest) (c + x + total (map fst rest))).
    { intros x. rewrite <- IH. apply mixed_vertices. intros a _. f_equal. unfold total. simpl. ring. }
    transitivity (delta f (map snd rest) (c + (l + h) + total (map fst rest))
      - delta f (map snd rest) (c + l + total (map fst rest))).
    + simpl. f_equal; apply each.
    + simpl. f_equal; f_equal; unfold total; simpl; ring.
Qed.

Lemma delta_scale : forall f c steps s, delta (fun x => c * f x) steps s = c * delta f steps s.
Proof. intros f c. induction steps as [| h rest IH]; intros s; simpl; [| rewrite !IH]; ring. Qed.

Lemma delta_same : forall f g steps s, (forall x, f x = g x) -> delta f steps s = delta g steps s.
Proof. intros f g steps. induction steps as [| h rest IH]; intros s same; simpl; [auto | rewrite !IH; auto]. Qed.

Lemma delta_derivative : forall f f' steps,
  (forall x, 0 < x -> is_derive f x (f' x)) -> Forall (fun h => 0 < h) steps ->
  forall s, 0 < s -> is_derive (delta f steps) s (delta f' steps s).
Proof.
  intros f f' steps derivative. induction steps as [| h rest IH]; intros positive s at_s; simpl.
  - apply derivative, at_s.
  - inversion positive as [| ? ? step others]; subst.
    apply (is_derive_minus (fun x => delta f rest (x + h)) (delta f rest)).
    + replace (delta f' rest (s + h)) with (scal 1 (delta f' rest (s + h))) by (unfold scal; simpl; unfold mult; simpl; ring).
      apply (is_derive_comp (delta f rest) (fun x => x + h)).
      * apply IH; [exact others | lra].
      * auto_derive; [exact I | ring].
    + apply IH; assumption.
Qed.

Definition power (k : nat) (x : R) : R := / x ^ S k.

Lemma power_derivative : forall k x, 0 < x -> is_derive (power k) x (- INR (S k) * power (S k) x).
Proof.
  intros k x positive. unfold power.
  assert (nonzero : x <> 0) by lra.
  assert (powers : x ^ k <> 0) by (apply pow_nonzero, nonzero).
  auto_derive.
  - apply Rmult_integral_contrapositive_currified; assumption.
  - change (match k with O => 1 | S _ => INR k + 1 end) with (INR (S k)).
    generalize (INR (S k)). intros count. simpl pow. field. split; assumption.
Qed.

(* The signs of the differences alternate: f is completely monotone. *)
Lemma alternating : forall steps, Forall (fun h => 0 < h) steps ->
  forall k s, 0 < s -> 0 < (-1) ^ length steps * delta (power k) steps s.
Proof.
  induction steps as [| h rest IH]; intros positive k s at_s.
  - simpl. unfold power. rewrite Rmult_1_l. apply Rinv_0_lt_compat, pow_lt, at_s.
  - inversion positive as [| ? ? step others]; subst.
    destruct (MVT_gen (delta (power k) rest) s (s + h) (delta (fun x => - INR (S k) * power (S k) x) rest))
      as [c [[low high] mean]].
    + intros x [above _]. rewrite Rmin_left in above by lra.
      apply delta_derivative; [apply power_derivative | exact others | lra].
    + intros x [above _]. rewrite Rmin_left in above by lra.
      apply derivable_continuous_pt. exists (delta (fun x => - INR (S k) * power (S k) x) rest x).
      apply is_derive_Reals, delta_derivative; [apply power_derivative | exact others | lra].
    + rewrite Rmin_left in low by lra.
      simpl. rewrite mean, delta_scale.
      replace (-1 * (-1) ^ length rest * (- INR (S k) * delta (power (S k)) rest c * (s + h - s)))
        with (INR (S k) * h * ((-1) ^ length rest * delta (power (S k)) rest c)) by ring.
      apply Rmult_lt_0_compat; [apply Rmult_lt_0_compat; [apply lt_0_INR; lia | exact step] |].
      apply IH; [exact others | lra].
Qed.

Theorem mixed_softmax : forall box,
  Forall (fun side => 0 <= fst side /\ 0 < snd side) box ->
  0 < (-1) ^ length box * mixed softmax box.
Proof.
  intros box sides. unfold softmax.
  rewrite (mixed_vertices box _ (fun a => power 0 (1 + total a))).
  2: { intros. unfold power. rewrite pow_1. reflexivity. }
  rewrite mixed_delta.
  replace (length box) with (length (map snd box)) by apply map_length.
  apply alternating.
  - apply Forall_map. revert sides. apply Forall_impl. tauto.
  - assert (0 <= total (map fst box)); [| lra].
    induction sides as [| side rest [low _] _ IH]; unfold total in *; simpl; lra.
Qed.

(* Theorem 3.1: whatever is read, unless it may be all n negatives, there is a vertex of the box where it is biased. *)
Theorem no_unbiased_estimator : forall box terms,
  Forall (fun side => 0 <= fst side /\ 0 < snd side) box ->
  Forall (reads_fewer (length box)) terms ->
  ~ (forall a, vertex box a -> expected terms a = softmax a).
Proof.
  intros box terms sides fewer unbiased.
  pose proof (mixed_softmax box sides) as positive.
  rewrite <- (mixed_vertices box _ _ unbiased), (mixed_expected terms box fewer) in positive. lra.
Qed.

(* With two negatives of 1 or 2, in words of the reals alone: so the definitions above are not empty. *)
Corollary two_negatives : forall f g : R -> R,
  ~ (forall x y, (x = 1 \/ x = 2) -> (y = 1 \/ y = 2) -> f x + g y = / (1 + x + y)).
Proof.
  intros f g equal.
  apply (no_unbiased_estimator [(1, 1); (1, 1)] [(fun a => f (nth 0 a 0)); (fun a => g (nth 1 a 0))]).
  - repeat constructor; simpl; lra.
  - repeat constructor; [exists 1%nat | exists 0%nat]; (split; [simpl; lia |]); intros before x y after size;
      destruct before as [| first [| second rest]]; simpl in *; try discriminate; reflexivity.
  - intros [| x [| y [| z rest]]] at_vertex; simpl in at_vertex; try tauto.
    destruct at_vertex as [at_x [at_y _]]. unfold expected, softmax, total. simpl.
    rewrite !Rplus_0_r, <- Rplus_assoc. apply equal; lra.
Qed.

(* The closed form for sides of equal length, as in `certificates.cube_difference`. *)
Fixpoint rising (s h : R) (n : nat) : R :=
  match n with
  | O => s
  | S m => rising s h m * (s + INR (S m) * h)
  end.

Lemma rising_shift : forall n s h, s * rising (s + h) h n = rising s h (S n).
Proof.
  induction n as [| n IH]; intros s h.
  - simpl. ring.
  - change (rising (s + h) h (S n)) with (rising (s + h) h n * (s + h + INR (S n) * h)).
    rewrite <- Rmult_assoc, IH.
    change (rising s h (S (S n))) with (rising s h (S n) * (s + INR (S (S n)) * h)).
    rewrite (S_INR (S n)). ring.
Qed.

Lemma rising_positive : forall n s h, 0 < s -> 0 < h -> 0 < rising s h n.
Proof.
  induction n as [| n IH]; intros s h at_s step; simpl.
  - exact at_s.
  - apply Rmult_lt_0_compat; [apply IH; assumption |].
    assert (0 <= INR (S n) * h) by (apply Rmult_le_pos; [apply pos_INR | lra]). simpl in *. lra.
Qed.

Theorem equal_sides : forall n s h, 0 < s -> 0 < h ->
  delta (power 0) (repeat h n) s = (-1) ^ n * INR (fact n) * h ^ n / rising s h n.
Proof.
  induction n as [| n IH]; intros s h at_s step.
  - simpl. unfold power. simpl. field. lra.
  - simpl repeat. simpl delta. rewrite (IH (s + h) h ltac:(lra) step), (IH s h at_s step).
    pose proof (rising_positive n s h at_s step) as low.
    pose proof (rising_positive n (s + h) h ltac:(lra) step) as high.
    pose proof (rising_shift n s h) as shift.
    assert (last : 0 < s + INR (S n) * h).
    { assert (0 <= INR (S n) * h) by (apply Rmult_le_pos; [apply pos_INR | lra]). lra. }
    change (rising s h (S n)) with (rising s h n * (s + INR (S n) * h)) in *.
    replace (rising (s + h) h n) with (rising s h n * (s + INR (S n) * h) / s).
    2: { rewrite <- shift. field. lra. }
    rewrite fact_simpl, mult_INR. simpl pow.
    field. repeat split; lra.
Qed.

Corollary equal_box : forall n low h, 0 <= low -> 0 < h ->
  mixed softmax (repeat (low, h) n)
  = (-1) ^ n * INR (fact n) * h ^ n / rising (1 + INR n * low) h n.
Proof.
  intros n low h at_low step. unfold softmax.
  rewrite (mixed_vertices _ _ (fun a => power 0 (1 + total a))).
  2: { intros. unfold power. rewrite pow_1. reflexivity. }
  rewrite mixed_delta.
  assert (sides : map snd (repeat (low, h) n) = repeat h n) by (induction n; simpl; congruence).
  assert (sum : total (map fst (repeat (low, h) n)) = INR n * low).
  { clear sides. induction n as [| n IH]; [unfold total; simpl; ring |].
    rewrite S_INR. unfold total in *. simpl. rewrite IH. ring. }
  rewrite sides, sum. apply equal_sides; [| exact step].
  assert (0 <= INR n * low) by (apply Rmult_le_pos; [apply pos_INR | exact at_low]). lra.
Qed.

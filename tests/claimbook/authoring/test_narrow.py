"""Figures on a phone: panels under one another, nothing cut, nothing hidden."""

from collections.abc import Iterator

import matplotlib.pyplot as plt
import pytest
from matplotlib.figure import Figure

from claimbook.authoring import figures

FORMULA = "$a + b + c + d + e + f$"
LONG = "a quantity with a long name, measured in units of its own"


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


def drawn(rows: int, columns: int, **shared: bool) -> Figure:
    fig, axes = plt.subplots(rows, columns, figsize=(figures.WIDTH, 3.0 * rows), squeeze=False, **shared)
    for ax in axes.flat:
        ax.plot([1, 2], [1, 2], label="rising")
        ax.plot([1, 2], [2, 1], label="falling")
    axes[0, 0].set_ylabel("value")
    axes[-1, 0].set_xlabel("steps")
    return fig


def within(fig: Figure) -> bool:
    """Whether all that is drawn lies within the picture."""
    fig.draw_without_rendering()
    box = fig.get_tightbbox()
    return box.x0 >= 0 and box.y0 >= 0 and box.x1 <= figures.PHONE and box.y1 <= fig.get_figheight()


def test_two_panels_stand_under_one_another_each_with_its_labels() -> None:
    fig = drawn(1, 2, sharey=True)
    left, right = fig.axes
    figures.stack(fig)
    assert fig.get_figwidth() == figures.PHONE
    upper, lower = left.get_position(), right.get_position()
    assert lower.y1 < upper.y0
    assert abs(lower.x0 - upper.x0) < 0.02
    assert right.get_ylabel() == "value"
    assert right.yaxis.get_tick_params()["labelleft"]
    assert within(fig)


def test_long_names_of_rows_that_two_panels_share_are_wrapped_in_both() -> None:
    fig = drawn(1, 2, sharey=True)
    fig.axes[0].set_yticks([1, 2], [LONG, "short"])
    figures.stack(fig)
    assert [ax.get_yticklabels()[0].get_text().count("\n") > 0 for ax in fig.axes] == [True, True]
    assert within(fig)


def test_four_panels_in_a_row_become_two_rows() -> None:
    fig = drawn(1, 4)
    figures.stack(fig)
    tops = [round(ax.get_position().y1, 2) for ax in fig.axes]
    assert tops[0] == tops[1] > tops[2] == tops[3]


def test_a_legend_gets_fewer_columns_until_it_fits() -> None:
    fig = drawn(1, 2)
    names = ["full softmax", "with log q subtracted", "without a correction"]
    lines = [fig.axes[0].plot([1, 2], [n, n], label=name)[0] for n, name in enumerate(names)]
    fig.legend(lines, names, loc="outside upper center", ncols=3)
    figures.stack(fig)
    (legend,) = fig.legends
    assert [text.get_text() for text in legend.get_texts()] == names
    assert legend.get_window_extent().width <= fig.bbox.width
    assert within(fig)


def test_a_wide_legend_in_a_panel_leaves_it() -> None:
    fig, ax = plt.subplots()
    ax.plot([1, 2], [1, 2], label="a line with a name of some length")
    ax.legend()
    figures.stack(fig)
    fig.draw_without_rendering()
    assert ax.get_legend() is None
    assert fig.legends[0].get_window_extent().y0 >= ax.get_window_extent().y1


def test_legends_of_panels_stand_above_them_and_below_their_titles() -> None:
    fig = drawn(1, 2)
    for ax in fig.axes:
        ax.set_title("title")
        ax.legend(loc="upper right")
    figures.stack(fig)
    fig.draw_without_rendering()
    for ax in fig.axes:
        legend = ax.get_legend().get_texts()[0].get_window_extent()
        assert ax.get_window_extent().y1 < legend.y0 < legend.y1 < ax.title.get_window_extent().y0
    assert within(fig)


def test_titles_and_labels_are_set_in_lines_that_fit_and_formulas_stay_whole() -> None:
    fig, ax = plt.subplots()
    ax.set(title=LONG, xlabel=f"as many words as {FORMULA} {LONG}", ylabel=LONG)
    figures.stack(fig)
    assert FORMULA in ax.get_xlabel()
    assert ax.get_xlabel().count("\n") > 1
    assert "\n" in ax.get_title()
    assert within(fig)


def test_names_of_rows_are_set_in_lines() -> None:
    fig, (_, ax) = plt.subplots(2, 1, sharex=True)
    ax.errorbar([1, 2], [0, 1], xerr=[1, 1], ls="")
    ax.set_xlabel("error less cross entropy's, points")
    ax.set_yticks([0, 1], ["within-batch negatives with importance weights", "full"])
    figures.stack(fig)
    assert "\n" in ax.get_yticklabels()[0].get_text()
    assert "\n" in ax.get_xlabel()
    assert within(fig)


def test_rows_of_small_pictures_without_labels() -> None:
    fig, axes = plt.subplots(2, 10, figsize=(figures.WIDTH, 1.5))
    for ax in axes.flat:
        ax.imshow([[0, 1]])
        ax.set(xticks=[], yticks=[])
    axes[0, 0].set_ylabel("image", rotation=0)
    figures.stack(fig)
    assert axes[0, 0].get_ylabel() == "image"
    assert within(fig)


def test_names_are_laid_out_alike_whether_the_figure_has_been_drawn_or_not() -> None:
    for is_drawn in (False, True):
        fig, ax = plt.subplots(figsize=(7, 2))
        ax.set_yticks([0, 1], ["log q subtracted from all logits,\nhits kept", "1,024 negatives by popularity"])
        if is_drawn:
            figures.svg(fig, "drawn", "drawn")
        figures.stack(fig)
        names = [name.get_text() for name in ax.get_yticklabels()]
        assert names == ["log q subtracted from\nall logits, hits kept", "1,024 negatives by\npopularity"]

"""The tool that removes barriers from kernels."""

import barriers
from tiers import times

SOURCE = """#include <cooperative_groups.h>
// a comment about __syncthreads()
__global__ void rotated(float *x)
{
    auto cta = cooperative_groups::this_thread_block();
    extern __shared__ float s[];
    x += 256 * blockIdx.x;
    s[threadIdx.x] = x[threadIdx.x];
    %s
    x[threadIdx.x] = s[(threadIdx.x + 64) %% 256];
    __syncthreads();
    s[threadIdx.x] = 0;
}
__global__ void plain(float *x) { x[threadIdx.x] = 1; }
"""


SIZES = barriers.SCALARS  # the integers that kernels are launched with: fewer in the default tier


def test_each_barrier_of_a_kernel_is_removed_alone():
    text = SOURCE % "cooperative_groups::sync(cta);"
    first, second = barriers.without_barriers(text, "rotated")
    assert (first[0], second[0]) == (9, 11)
    assert "sync(cta)" not in first[1] and "    __syncthreads();" in first[1]
    assert "sync(cta)" in second[1] and "    __syncthreads();" not in second[1]
    assert not list(barriers.without_barriers(text, "plain"))


def test_removals_are_noticed_under_each_schedule(tmp_path, monkeypatch):
    sizes = times(SIZES, SIZES[:1])
    monkeypatch.setattr(barriers, "SCALARS", sizes)
    file = tmp_path / "k.cu"
    file.write_text(SOURCE % "cta.sync();")
    rows = barriers.rows_of(str(file), [])
    assert [(row[0], row[2]) for row in rows] == [("rotated", 9), ("rotated", 11)]
    assert rows[0][1] == [(data, n, 2, (256,)) for data in ("random", "zeros") for n in sizes]
    assert [row[3] for row in rows] == [["race"] * 3] * 2
    assert all(barriers.is_noticed(row) for row in rows)


def test_a_barrier_that_is_not_needed_and_a_kernel_with_faults(tmp_path, monkeypatch):
    monkeypatch.setattr(barriers, "SCALARS", times(SIZES, SIZES[:1]))
    file = tmp_path / "k.cu"
    text = SOURCE.replace("(threadIdx.x + 64) %% 256", "threadIdx.x") % "__syncthreads();"
    file.write_text(text)
    rows = barriers.rows_of(str(file), [])
    assert [row[-1] for row in rows] == [["no faults"] * 3] * 2 and not any(map(barriers.is_noticed, rows))
    file.write_text(text.replace("x[threadIdx.x] = s", "x[0] = threadIdx.x + s"))
    assert barriers.rows_of(str(file), []) == []


def test_notes_are_kept_by_kernel_and_line(tmp_path):
    list_ = tmp_path / "list.tsv"
    list_.write_text(
        "# r c\npath\tkernel\tlaunch\tline\ta\tb\tc\tnote\nf.cu\tk\tblock 64\t8\tx\tx\tx\tnot needed\n"
    )
    assert barriers.read_notes(list_) == {("f.cu", "k", "8"): "not needed"}

"""A failed allocation: what each allocator says is understood, and what held the memory is named."""

import pickle
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from stepscope.records import Allocator, OutOfMemory, Segment  # noqa: E402
from stepscope.speed.out_of_memory import is_out_of_memory, out_of_memory, snapshot  # noqa: E402

GIB = 2**30
CUDA = (
    "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 1 has a total capacity of 139.81 GiB of which 4.31 GiB is "
    "free. Process 4711 has 2.00 GiB memory in use. Including non-PyTorch memory, this process has 133.50 GiB memory "
    "in use. Of the allocated memory 130.25 GiB is allocated by PyTorch, with 96.00 MiB allocated in private pools "
    "(e.g., CUDA Graphs), and 512.50 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory "
    "is large try setting PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
)


def host_error() -> RuntimeError:
    """A real one: a pebibyte."""
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**50, dtype=torch.uint8)
    return caught.value


def test_the_text_of_cudas_allocator_is_read() -> None:
    """Asked, free, allocated, reserved, and on which GPU; the segments are that GPU's."""
    stats = [
        Allocator(id=0, stats=[Segment(name="weights", device=1)]),
        Allocator(id=1, stats=[Segment(name="weights", device=2), Segment(name="activations", device=3)]),
    ]
    record = out_of_memory(torch.OutOfMemoryError(CUDA), stats, [{"step": 1}], phase="forward_pass")
    assert record == OutOfMemory(
        id=1,
        asked=20 * GIB,
        free=round(4.31 * GIB),
        allocated=round(130.25 * GIB),
        reserved=round(130.25 * GIB) + round(512.5 * 2**20),
        message=CUDA,
        phase="forward_pass",
        stats=stats[1].stats,
        last_steps=[{"step": 1}],
    )


@pytest.mark.parametrize(
    ("said", "size"), [("1024 bytes", 1024), ("2.50 KiB", 2560), ("20.00 MiB", 20 * 2**20), ("1.50 GiB", 1.5 * GIB)]
)
def test_every_unit_of_torch_is_understood(said: str, size: int) -> None:
    """From bytes on."""
    error = torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {said}. GPU 0 has a total capacity of …")
    assert out_of_memory(error).asked == size


def test_a_failed_allocation_on_the_host_is_one() -> None:
    """torch's own, at its word: exact bytes, no GPU, and nothing made up."""
    error = host_error()
    record = out_of_memory(error, [Allocator(stats=[Segment(name="weights", pageable=7)])])
    assert is_out_of_memory(error)
    assert (record.id, record.asked, record.free, record.allocated) == (None, 2**50, None, None)
    assert record.stats == [Segment(name="weights", pageable=7)]
    assert record.message == str(error)


def test_numpy_and_python_fail_in_their_own_words() -> None:
    """A size where there is one; the name of the error where there are no words."""
    numpy = pytest.importorskip("numpy")
    with pytest.raises(MemoryError) as caught:
        numpy.ones(2**47)
    assert out_of_memory(caught.value).asked == 2**50
    assert out_of_memory(MemoryError()) == OutOfMemory(message="MemoryError")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (torch.OutOfMemoryError("CUDA out of memory."), True),
        (MemoryError(), True),
        (RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be …"), True),
        (RuntimeError("MPS backend out of memory (MPS allocated: …)"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes."), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (ValueError("out of memory"), False),
        (KeyboardInterrupt(), False),
    ],
)
def test_only_failed_allocations_are_taken_for_one(error: BaseException, expected: bool) -> None:
    """By their type, or by what only they say."""
    assert is_out_of_memory(error) is expected


def test_the_cause_of_an_error_counts() -> None:
    """A framework that wraps it; causes that go in a circle end."""
    outer = ValueError("the training failed")
    outer.__cause__ = torch.OutOfMemoryError(CUDA)
    assert is_out_of_memory(outer)
    assert out_of_memory(outer).asked == 20 * GIB
    one, two = ValueError(), ValueError()
    one.__cause__, two.__cause__ = two, one
    assert not is_out_of_memory(one)


def test_the_last_256_steps_are_kept() -> None:
    """Newest last."""
    record = out_of_memory(MemoryError(), last_steps=list(range(300)))
    assert record.last_steps == list(range(44, 300))


def test_segments_alone_are_taken_as_they_are() -> None:
    """Whoever measured one device needs no record around them."""
    held = [Segment(name="weights", device=5)]
    assert out_of_memory(torch.OutOfMemoryError(CUDA), held).stats == held


def test_without_cuda_there_is_no_snapshot(tmp_path: Path) -> None:
    """And no folder, and CUDA sleeps on."""
    assert out_of_memory(MemoryError(), snapshot_folder=tmp_path / "snapshots").snapshot is None
    assert list(tmp_path.iterdir()) == []
    assert not torch.cuda.is_initialized()


def test_a_snapshot_takes_a_free_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several failures of one rank, and several ranks, share a folder."""
    monkeypatch.setattr("torch.cuda.is_initialized", lambda: True)
    monkeypatch.setattr("torch.cuda.memory._snapshot", lambda **_: {"segments": []})
    monkeypatch.setenv("RANK", "3")
    paths = [snapshot(tmp_path / "snapshots") for _ in range(2)]
    assert [Path(str(path)).name for path in paths] == ["oom-rank3.pickle", "oom-rank3-2.pickle"]
    assert pickle.loads(Path(str(paths[0])).read_bytes()) == {"segments": []}


def test_a_snapshot_that_fails_leaves_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And no torn file."""

    def full(path: str) -> Any:
        Path(path).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("torch.cuda.is_initialized", lambda: True)
    monkeypatch.setattr("torch.cuda.memory._dump_snapshot", full)
    record = out_of_memory(torch.OutOfMemoryError(CUDA), snapshot_folder=tmp_path)
    assert (record.asked, record.snapshot) == (20 * GIB, None)
    assert list(tmp_path.iterdir()) == []

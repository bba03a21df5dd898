"""Files such as profilers write, and a program that stands in for both profilers."""

from __future__ import annotations

ROCPROF_HEADER = (
    '"Kind","Agent_Id","Kernel_Name","Start_Timestamp","End_Timestamp","LDS_Block_Size",'
    '"Scratch_Size","VGPR_Count","SGPR_Count","Workgroup_Size_X","Workgroup_Size_Y",'
    '"Workgroup_Size_Z","Grid_Size_X","Grid_Size_Y","Grid_Size_Z"\n'
)
NCU_HEADER = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size",'
    '"Grid Size","Device","CC","gpu__time_duration.sum","launch__registers_per_thread",'
    '"launch__shared_mem_per_block_dynamic","launch__shared_mem_per_block_static"\n'
    '"","","","","","","","","","","","ns","register/thread","byte/block","byte/block"\n'
)

# Stands in for both profilers: runs the command it is given, or not, and writes such a file.
FAKE = """#!{python}
import pathlib, subprocess, sys
words = sys.argv[1:]
folder = pathlib.Path(__file__).parent
(folder / "called").open("a").write(" ".join(words) + "\\n")
if words == ["--version"]:
    print("NVIDIA (R) Nsight Compute Command Line Profiler\\nVersion 2025.3.1.0 (build 1)")
    sys.exit()
print((folder / "prints").read_text())
if (folder / "runs").exists():
    child = words[words.index(sys.executable):]
    subprocess.run(child, check=True)
if "--log-file" in words:
    target = pathlib.Path(words[words.index("--log-file") + 1])
else:
    target = pathlib.Path(words[words.index("-d") + 1]) / "host" / "tuner_kernel_trace.csv"
    target.parent.mkdir()
if (folder / "trace").exists():
    target.write_text((folder / "trace").read_text())
"""


def rocprof_row(kernel: str, begin_ns: int, took_ns: int, vgpr: object = 24) -> str:
    return (
        f'"KERNEL_DISPATCH","Agent 4","{kernel}",{begin_ns},{begin_ns + took_ns},0,0,{vgpr},16,'
        "64,1,1,384,1,1\n"
    )


def rocprof(*times_ns: int, kernel: str = "planted_good", vgpr: object = 24) -> str:
    rows = [rocprof_row(kernel, 10**6 * at, time, vgpr) for at, time in enumerate(times_ns, 1)]
    return ROCPROF_HEADER + rocprof_row("__amd_rocclr_copyBuffer", 5, 10) + "".join(rows)


def ncu(*times_ns: int, kernel: str = "planted_good") -> str:
    rows = [
        f'"{number}","7","python","127.0.0.1","{kernel}","1","7","(64, 1, 1)","(6, 1, 1)","0",'
        f'"9.0","{time:,}","18","1,024","0"\n'
        for number, time in enumerate((50, *times_ns))
    ]
    rows[0] = rows[0].replace(kernel, "reference(float *)")
    return "==PROF== Connected to process 7\n" + NCU_HEADER + "".join(rows)

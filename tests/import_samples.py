"""One sound file of each format of evidence, as texts that tests can spoil."""

from __future__ import annotations

LOG = """\
loading ...
ENV runtime=hip gpu="Radeon RX 9070 XT" architecture=gfx1201 rocm=7.13
ENV runtime=triton gpu="Radeon RX 9070 XT" architecture=gfx1201 torch=2.13.0 triton=3.8.0
RESULT operator=norm implementation=hip-block runtime=hip shape=1024x4096 rows=1024 cols=4096 \
dtype=float32 block=256 warmup=10 repeat=50 seed=20260719 timed=1 correct=OK precheck=OK \
postcheck=OK min_ms=0.058000 median_ms=0.058440 mean_ms=0.058700 max_abs_error=1.2e-06
RESULT config_id=t1 operator=norm implementation=triton-t1 runtime=triton shape=1024x4096 \
dtype=float32 epsilon=1e-5 block_size=4096 num_warps=8 block=NA warmup=10 repeat=50 seed=7 \
timed=1 correct=OK scope=kernel launches=1 note="two words=and more" median_ms=0.030081 \
max_abs_error=2e-06 max_rel_error=NA
RESULT operator=norm implementation=triton-t0 runtime=triton shape=33x257 rows=33 cols=257 \
dtype=float32 num_warps=4 timed=0 correct=FAIL precheck=FAIL postcheck=NA min_ms=NA median_ms=NA \
mean_ms=NA
done
"""

SUMMARY = """\
config_id,implementation,runtime,shape,dtype,rows,cols,epsilon,block,num_warps,seed,warmup,repeat,\
run_count,correct,median_ms,median_ms_run_min,median_ms_run_max,max_abs_error,max_rel_error
h1,hip-block,hip,1024x4096,float32,1024,4096,1e-5,256,NA,7,10,50,3,OK,0.058440,0.058041,0.0590205,\
1e-6,NA
t1,triton-t1,triton,1024x4096,float32,1024,4096,1e-5,NA,8,7,10,50,3,OK,0.030081,0.030041,0.031160,\
1e-6,NA
"""

SAMPLES = """\
config_id,implementation,shape,dtype,process,sample,ms
h1,hip-block,1024x4096,float32,0,0,0.0590205
h1,hip-block,1024x4096,float32,0,1,0.058440
h1,hip-block,1024x4096,float32,0,2,0.058041
h1,hip-block,1024x4096,float32,1,0,0.05844
"""

PROFILE = """\
config_id,shape,stage,kernel,scope,trace_dispatches,excluded_precheck_warmup,timed_dispatches,\
trace_median_ms,trace_min_ms,trace_max_ms,Grid_Size_X,Grid_Size_Y,Grid_Size_Z,Workgroup_Size_X,\
Workgroup_Size_Y,Workgroup_Size_Z,VGPR_Count,SGPR_Count,LDS_Block_Size,Scratch_Size
r1,4096x128,target,rows_kernel,target,63,13,50,0.00914,0.00900,0.01000,4096,1,1,128,1,1,24,16,0,0
r1,4096x128,copy,copy_kernel,other,7,7,0,,,,4096,1,1,256,1,1,,,,
"""

T4 = """\
{
  "schema_version": "1.0.0",
  "results": [
    {
      "timestamp": "2026-07-19 10:00:00+00:00",
      "configuration": {"block_size_x": 128, "tile": 2},
      "objectives": ["time"],
      "times": {"compilation_time": 512.5, "runtimes": [0.0360, 0.0333, 0.0340], "validation": 0},
      "invalidity": "correct",
      "correctness": 1,
      "measurements": [{"name": "time", "value": 0.034433, "unit": "ms"},
                       {"name": "GFLOP/s", "value": 12.5, "unit": ""}]
    },
    {
      "configuration": {"block_size_x": 2048, "tile": 2},
      "invalidity": "compile",
      "measurements": [{"name": "time", "value": "CompilationFailedConfig", "unit": "ms"}]
    }
  ]
}
"""

CACHE = """\
{
"device_name": "Radeon RX 9070 XT",
"kernel_name": "add",
"problem_size": [1024, 1],
"tune_params_keys": [
"block_size_x"
],
"tune_params": {
"block_size_x": [64, 128, 4096]
},
"objective": "time",
"cache": {
"64": {"block_size_x": 64, "time": 0.0402, "times": [0.0400, 0.0410, 0.0396], "compile_time": 9.5},
"128": {"block_size_x": 128, "time": 0.0302, "timestamp": "2026-07-19 11:11:11.105+00:00"},
"4096": {"block_size_x": 4096, "time": "InvalidConfig"}}
}"""

RECORDED = """\
schema = 1
name = "someones-2026"
source = "a public page"
measured_on = "2026-07-19"
operator = "norm"
shape = "1024x4096"
unit = "us"

[environment]
architecture = "gfx1201"

[[recorded]]
implementation = "serial"
median = "1504.860"
low = "1501.600"
high = "1510.040"

[[recorded]]
implementation = "block"
config = { block = 256 }
samples = ["58.041", "58.44", "59.0205"]
rerun = { implementation = "hip-block", config = { BLOCK = 256 } }
faster_than = ["serial"]

[[recorded]]
implementation = "broken"
outcome = "wrong_result"
message = "off by one"
"""

FILES = {
    "log": LOG,
    "summary-csv": SUMMARY,
    "samples-csv": SAMPLES,
    "profile-csv": PROFILE,
    "kernel-tuner-t4": T4,
    "kernel-tuner-cache": CACHE,
    "recorded": RECORDED,
}

extern "C" __global__ void planted_broken_source(const float* x, float* y, long long rows, long long cols) {
    y[0] = no_such_name;
}

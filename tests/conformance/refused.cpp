#include <pto/pto-inst.hpp>
__global__ AICORE void k(__gm__ float* x, int n) {}

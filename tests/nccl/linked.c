/*
 * Is linked with NCCL's functions that PyTorch, CuPy, vLLM and nccl4py look up, as PyTorch is, and
 * calls none: a loader that binds symbols at once (LD_BIND_NOW) finds all of them.
 */
#define USER(name) extern void name(void);
#include <users.inc>
#undef USER

#define USER(name) name,
static void (*const volatile users[])(void) = {
#include <users.inc>
};

int main(void) {
  return users[0] == 0;
}

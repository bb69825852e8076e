/* Loads a native module for Node on another C library than this machine's: every symbol must be found, and the function that Node calls. */
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char **arguments) {
  void *module = count == 2 ? dlopen(arguments[1], RTLD_NOW) : NULL;
  if (module == NULL || dlsym(module, "napi_register_module_v1") == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  puts("loaded");
  return 0;
}

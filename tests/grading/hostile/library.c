/* A library that a hostile file carries: loading it creates the file whose name is in PLACE. Built by test_hostile.py. */
static const char PLACE[] = "@PLACE@";

__attribute__((constructor)) static void begin(void) {
#ifdef __x86_64__
    register long mode __asm__("r10") = 0600;
    long got;
    __asm__ volatile("syscall" : "=a"(got) : "0"(257L), "D"(-100L), "S"(PLACE), "d"(0101L), "r"(mode) : "rcx", "r11", "memory");
#else
    register long number __asm__("x8") = 56, folder __asm__("x0") = -100, flags __asm__("x2") = 0101, mode __asm__("x3") = 0600;
    register const char *name __asm__("x1") = PLACE;
    __asm__ volatile("svc 0" : "+r"(folder) : "r"(number), "r"(name), "r"(flags), "r"(mode) : "memory");
#endif
}

void *PyInit_mine(void) { return 0; }

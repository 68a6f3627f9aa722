#include <gneiss/storage/engine/uring.hpp>

#include <liburing.h>

int main() {
    io_uring_free_probe(io_uring_get_probe()); // links; the kernel may still forbid a ring
    return 0;
}

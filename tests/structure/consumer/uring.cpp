#include <gneiss/storage/engine/uring.hpp>

#include <liburing.h>

int main() {
    io_uring_free_probe(io_uring_get_probe()); // links; whether the kernel allows a ring is another matter
    return 0;
}

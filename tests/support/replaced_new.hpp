#pragma once

#include <cstddef>
#include <new>

#include "support/allocations.hpp"

// Replaces operator new and delete: included by one file of a test binary.

// NOLINTBEGIN(misc-definitions-in-headers,misc-new-delete-overloads): one unit of a test has them
void* operator new(std::size_t bytes) { return gneiss::test::counted_allocation(bytes, alignof(std::max_align_t)); }
void* operator new[](std::size_t bytes) { return gneiss::test::counted_allocation(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
    return gneiss::test::counted_allocation(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
    return gneiss::test::counted_allocation(bytes, static_cast<std::size_t>(alignment));
}
// std::stable_sort asks for its buffer by these.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
    return gneiss::test::counted_allocation_or_null(bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
    return gneiss::test::counted_allocation_or_null(bytes);
}
void operator delete(void* p) noexcept { gneiss::test::give_back(p); }
void operator delete[](void* p) noexcept { gneiss::test::give_back(p); }
void operator delete(void* p, std::size_t) noexcept { gneiss::test::give_back(p); }
void operator delete[](void* p, std::size_t) noexcept { gneiss::test::give_back(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { gneiss::test::give_back(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { gneiss::test::give_back(p); }
void operator delete(void* p, std::align_val_t) noexcept { gneiss::test::give_back(p); }
void operator delete[](void* p, std::align_val_t) noexcept { gneiss::test::give_back(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { gneiss::test::give_back(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { gneiss::test::give_back(p); }
// NOLINTEND(misc-definitions-in-headers,misc-new-delete-overloads)

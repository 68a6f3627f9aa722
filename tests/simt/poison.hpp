#pragma once

// Locates the static __shared__ variables of this program, so that each block finds NaN and not its predecessor's
// values.

#include <elf.h>
#include <link.h>

#include <cstddef>
#include <cstring>
#include <fstream>
#include <iterator>
#include <span>
#include <string_view>
#include <vector>

#include <simt/fiber.hpp>

namespace simt {

/// Initial bytes of shared memory: NaN as a float of any width, −1 as an integer.
inline constexpr int poison_byte = 0xff;

/// Returns every static `__shared__` variable, found by its tag in the symbol table. Read once.
inline std::span<const std::span<std::byte>> static_shared() {
    static const std::vector<std::span<std::byte>> found = [] {
        std::vector<std::span<std::byte>> all;
        std::ifstream file("/proc/self/exe", std::ios::binary);
        const std::vector<char> image{std::istreambuf_iterator<char>(file), {}};
        const auto at = [&]<class T>(T& to, std::size_t offset) { std::memcpy(&to, image.data() + offset, sizeof to); };
        ElfW(Addr) base = 0; // the program itself comes first
        dl_iterate_phdr([](dl_phdr_info* info, std::size_t,
                            void* to) { return *static_cast<ElfW(Addr)*>(to) = info->dlpi_addr, 1; },
            &base);
        ElfW(Ehdr) header;
        at(header, 0);
        for (unsigned i = 0; i < header.e_shnum; ++i) {
            ElfW(Shdr) section, names;
            at(section, header.e_shoff + i * sizeof section);
            if (section.sh_type != SHT_SYMTAB) continue;
            at(names, header.e_shoff + section.sh_link * sizeof names);
            for (std::size_t j = 0; j < section.sh_size / sizeof(ElfW(Sym)); ++j) {
                ElfW(Sym) symbol;
                at(symbol, section.sh_offset + j * sizeof symbol);
                const std::string_view name = image.data() + names.sh_offset + symbol.st_name;
                if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT || !name.starts_with("_Z") ||
                    name.find("B11simt_shared") == name.npos)
                    continue;
                auto* const begin = reinterpret_cast<std::byte*>(
                    base + symbol.st_value); // NOLINT(performance-no-int-to-ptr): of the symbol table
                std::size_t size = symbol.st_size;
#if defined(GNEISS_ADDRESS_SANITIZER)
                // clang counts the red zone after a variable as part of it.
                if (void* const red = __asan_region_is_poisoned(begin, size))
                    size = static_cast<std::size_t>(static_cast<std::byte*>(red) - begin);
#endif
                all.emplace_back(begin, size);
            }
        }
        return all;
    }();
    return found;
}

inline void poison_static_shared() {
    for (const std::span<std::byte> one : static_shared()) std::memset(one.data(), poison_byte, one.size());
}

} // namespace simt

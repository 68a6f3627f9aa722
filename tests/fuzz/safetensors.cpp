#include "fuzz/target.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <gneiss/io/safetensors.hpp>

namespace test_fuzz_safetensors {

using namespace gneiss;

GNEISS_FUZZ_TARGET("safetensors", bytes) {
    const fuzz::memory_file file(bytes);
    safetensors_header header;
    if (!fuzz::accepted([&] { header = read_safetensors_header(plain_file::open(file.path())); })) return;
    std::uint64_t end = header.data_offset;
    for (const tensor_entry& tensor : header.tensors) {
        fuzz::property(tensor.offset == end, "tensors follow one another");
        end += tensor.bytes();
    }
    fuzz::property(end == bytes.size(), "tensors end with the file");
    safetensors_header ours = header;
    const std::string head = format_safetensors_header(ours);
    std::vector<std::byte> all(std::as_bytes(std::span(head)).begin(), std::as_bytes(std::span(head)).end());
    const auto data = bytes.subspan(header.data_offset);
    all.insert(all.end(), data.begin(), data.end());
    const fuzz::memory_file copy(all);
    const mapped_safetensors again(copy.path());
    fuzz::property(again.header().metadata == header.metadata, "written metadata is read back");
    fuzz::property(again.header().tensors.size() == header.tensors.size(), "all tensors are read back");
    for (const tensor_entry& tensor : header.tensors) {
        const tensor_entry& found = again.at(tensor.name);
        fuzz::property(found.dtype == tensor.dtype && found.shape == tensor.shape, "a written tensor is read back");
        if (tensor.dtype != tensor_dtype::u8) continue;
        fuzz::property(std::ranges::equal(std::as_bytes(again.elements<std::uint8_t>(tensor.name)),
                           bytes.subspan(tensor.offset, tensor.bytes())),
            "with its elements");
    }
}

} // namespace test_fuzz_safetensors

#pragma once

#include <cstddef>
#include <vector>

namespace gneiss {

/// Makes `values` hold `size` elements. What it held is lost when it must grow, and then it takes an eighth more than asked
/// at most, where `resize` would double it and keep the old memory meanwhile: bounds of memory count on that.
template <class T>
void renew(std::vector<T>& values, std::size_t size) {
    if (size > values.capacity()) {
        values = {};
        values.reserve(size + size / 8);
    }
    values.resize(size);
}

} // namespace gneiss

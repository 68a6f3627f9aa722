// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include <gneiss/core/executor/ref.hpp>
#include <gneiss/model/dense_parameters.hpp>
#include <gneiss/train/any_slots.hpp>
#include <gneiss/train/cpu_backend.hpp>

namespace gneiss {

/// A loss of your own on an encoder's outputs, any `loss_head`, for the CPU.
class any_loss_head {
public:
    /// Takes a head.
    template <loss_head Head>
    any_loss_head(Head head) // NOLINT(google-explicit-constructor): stands for the head
        : make_([head = std::move(head)](cpu_encoder& encode, dense_parameters<>& weights, std::uint64_t seed,
                    executor_ref executor, cpu_encoder_backend_options options) {
              return any_backend(std::in_place_type<cpu_encoder_backend<Head>>, encode, weights, head, seed, executor,
                  std::move(options));
          }) {}
    /// Returns a backend with the head.
    [[nodiscard]] any_backend backend(cpu_encoder& encode, dense_parameters<>& weights, std::uint64_t seed,
        executor_ref executor, cpu_encoder_backend_options options = {}) const {
        return make_(encode, weights, seed, executor, std::move(options));
    }

private:
    std::function<any_backend(
        cpu_encoder&, dense_parameters<>&, std::uint64_t, executor_ref, cpu_encoder_backend_options)>
        make_;
};

} // namespace gneiss

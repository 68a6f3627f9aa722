// SPDX-License-Identifier: Apache-2.0
// Forward declarations of module inference, without the default arguments of templates, which stand in their headers.
#pragma once

namespace gneiss {

struct layerwise_edges;
struct layerwise_input;
struct layerwise_options;
struct layerwise_plan;
struct layerwise_result;

} // namespace gneiss

#pragma once

#include "network.hpp"

namespace ginex {

using evaluation_source = trainers::classifier_source;
using trainers::for_each_block;

} // namespace ginex

// SPDX-License-Identifier: Apache-2.0
#pragma once

// The version of gneiss, by semantic versioning (docs/policy.md). CMake reads the three numbers from this file.
#define GNEISS_VERSION_MAJOR 0
#define GNEISS_VERSION_MINOR 1
#define GNEISS_VERSION_PATCH 0

/// One number that rises with each version, for `#if`: 1.2.3 is 10203.
#define GNEISS_VERSION (GNEISS_VERSION_MAJOR * 10000 + GNEISS_VERSION_MINOR * 100 + GNEISS_VERSION_PATCH)

#define GNEISS_VERSION_QUOTE_(major, minor, patch) #major "." #minor "." #patch
#define GNEISS_VERSION_JOIN_(major, minor, patch) GNEISS_VERSION_QUOTE_(major, minor, patch)

/// "MAJOR.MINOR.PATCH".
#define GNEISS_VERSION_STRING GNEISS_VERSION_JOIN_(GNEISS_VERSION_MAJOR, GNEISS_VERSION_MINOR, GNEISS_VERSION_PATCH)

// SPDX-License-Identifier: Apache-2.0
#pragma once

// The version of gneiss, by semantic versioning (docs/policy.md). CMake reads the three numbers from this file.

/// \ingroup entry
/// Rises with each incompatible version, from 1.0.0 on.
#define GNEISS_VERSION_MAJOR 0
/// \ingroup entry
/// Rises with each version that adds to the API; before 1.0.0, also with incompatible ones.
#define GNEISS_VERSION_MINOR 1
/// \ingroup entry
/// Rises with each version that only fixes defects.
#define GNEISS_VERSION_PATCH 0

/// \ingroup entry
/// One number that rises with each version, for `#if`: 1.2.3 is 10203.
#define GNEISS_VERSION (GNEISS_VERSION_MAJOR * 10000 + GNEISS_VERSION_MINOR * 100 + GNEISS_VERSION_PATCH)

#define GNEISS_VERSION_QUOTE_(major, minor, patch) #major "." #minor "." #patch
#define GNEISS_VERSION_JOIN_(major, minor, patch) GNEISS_VERSION_QUOTE_(major, minor, patch)

/// \ingroup entry
/// "MAJOR.MINOR.PATCH".
#define GNEISS_VERSION_STRING GNEISS_VERSION_JOIN_(GNEISS_VERSION_MAJOR, GNEISS_VERSION_MINOR, GNEISS_VERSION_PATCH)

# The xxHash header, used inline: XxHash::XxHash carries an include directory and no library.
find_path(XxHash_INCLUDE_DIR xxhash.h)
mark_as_advanced(XxHash_INCLUDE_DIR)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(XxHash REQUIRED_VARS XxHash_INCLUDE_DIR)
if(XxHash_FOUND AND NOT TARGET XxHash::XxHash)
  add_library(XxHash::XxHash INTERFACE IMPORTED)
  target_include_directories(XxHash::XxHash INTERFACE ${XxHash_INCLUDE_DIR})
endif()

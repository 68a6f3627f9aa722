# Installs headers and the CMake package. One export set per component, so that a consumer without Eigen still gets the core.
# If gneiss is part of another project, the package is installed with that project.
set(gneiss_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/gneiss)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT gneiss_headers)
install(TARGETS gneiss EXPORT gneiss-core)
install(EXPORT gneiss-core NAMESPACE gneiss:: DESTINATION ${gneiss_package_dir} COMPONENT gneiss_headers)
foreach(component ${GNEISS_COMPONENTS})
  install(TARGETS gneiss_${component} EXPORT gneiss-${component})
  install(EXPORT gneiss-${component} NAMESPACE gneiss:: DESTINATION ${gneiss_package_dir} COMPONENT gneiss_headers)
endforeach()
# The library has its own install component: header-only users need gneiss_headers alone.
set(gneiss_compiled_needs "")
if(TARGET gneiss_compiled)
  list(TRANSFORM compiled_needs REPLACE "^gneiss_" "gneiss::" OUTPUT_VARIABLE gneiss_compiled_needs)
  install(TARGETS gneiss_compiled EXPORT gneiss-compiled ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT gneiss_compiled)
  install(EXPORT gneiss-compiled NAMESPACE gneiss:: DESTINATION ${gneiss_package_dir} COMPONENT gneiss_compiled)
endif()

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/gneissConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/gneissConfig.cmake INSTALL_DESTINATION ${gneiss_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/gneissConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES ${PROJECT_BINARY_DIR}/gneissConfig.cmake ${PROJECT_BINARY_DIR}/gneissConfigVersion.cmake
              ${PROJECT_SOURCE_DIR}/cmake/FindXxHash.cmake ${PROJECT_SOURCE_DIR}/cmake/FindUring.cmake
              ${PROJECT_SOURCE_DIR}/cmake/FindMetis.cmake
        DESTINATION ${gneiss_package_dir} COMPONENT gneiss_headers)

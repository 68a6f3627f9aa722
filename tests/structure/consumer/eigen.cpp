#include <gneiss/model/backend/eigen.hpp>

#include <Eigen/Core>

int main() { return Eigen::Vector3f::Ones().dot(Eigen::Vector3f::Ones()) == 3.0F ? 0 : 1; }

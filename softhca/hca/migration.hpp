// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "softhca/hca/layout.hpp"

namespace softhca::hca {

/// Makes the alternate path of a QP its path, and the other way round. The caller holds the QP's
/// rx_lock; the owner brings its own attributes up to it when it uses the QP next.
void take_alternate(QpRecord& record);

}  // namespace softhca::hca

// SPDX-License-Identifier: BSD-3-Clause
#include "mad/cm_reject.hpp"

namespace wireup::mad {

std::string_view rej_reason_name(std::uint16_t reason) noexcept {
  switch (reason) {
#define WIREUP_REJ_NAME(name, number, sentence) \
  case number:                                  \
    return #name;
    WIREUP_REJ_REASONS(WIREUP_REJ_NAME)
#undef WIREUP_REJ_NAME
    default:
      return "Unknown";
  }
}

std::string_view rej_reason_sentence(std::uint16_t reason) noexcept {
  switch (reason) {
#define WIREUP_REJ_SENTENCE(name, number, sentence) \
  case number:                                      \
    return sentence;
    WIREUP_REJ_REASONS(WIREUP_REJ_SENTENCE)
#undef WIREUP_REJ_SENTENCE
    default:
      return "unknown reason";
  }
}

}  // namespace wireup::mad

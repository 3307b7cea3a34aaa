// SPDX-License-Identifier: BSD-3-Clause
#include "mad/sa.hpp"

#include <algorithm>

namespace wireup::mad {
namespace {

constexpr Field kRmppVersion{24, 0, 8};
constexpr Field kRmppType{25, 0, 8};
constexpr Field kRmppResponseTime{26, 0, 5};
constexpr Field kRmppFlags{26, 5, 3};
constexpr Field kRmppStatus{27, 0, 8};
constexpr Field kSegment{28, 0, 32};
constexpr Field kPayloadLength{32, 0, 32};
constexpr Field kSmKey{36, 0, 64};
constexpr Field kAttributeOffset{44, 0, 16};
constexpr Field kReserved{46, 0, 16};
constexpr Field kComponentMask{48, 0, 64};

static_assert(fields_are_disjoint(std::array{kRmppVersion, kRmppType, kRmppResponseTime, kRmppFlags,
                                             kRmppStatus, kSegment, kPayloadLength, kSmKey,
                                             kAttributeOffset, kReserved, kComponentMask},
                                  SaMad::kDataOffset));
static_assert(kComponentMask.end_bit() == SaMad::kDataOffset * 8);

constexpr std::uint8_t kSaClass = static_cast<std::uint8_t>(MgmtClass::SubnAdm);

template <typename Record>
SaMad make_request(Method method, Tid tid, std::uint16_t attribute, const Record& record,
                   std::uint64_t component_mask) noexcept {
  SaMad sa;
  sa.header.mgmt_class = kSaClass;
  sa.header.class_version = kSaClassVersion;
  sa.header.method = static_cast<std::uint8_t>(method);
  sa.header.tid = tid;
  sa.header.attribute_id = attribute;
  sa.component_mask = component_mask;
  serialize(record, std::span(sa.data).template first<Record::kSize>());
  return sa;
}

}  // namespace

const char* sa_status_text(std::uint16_t status) noexcept {
  switch (status >> 8U) {
    case 0:
      break;
#define WIREUP_SA_STATUS_CASE(name, number, sentence) \
  case (number):                                      \
    return sentence;
      WIREUP_SA_STATUS(WIREUP_SA_STATUS_CASE)
#undef WIREUP_SA_STATUS_CASE
    default:
      return "a class status this program does not know";
  }
  if ((status & kStatusBusy) != 0) {
    return "the SA is busy";
  }
  if ((status & kStatusRedirect) != 0) {
    return "the SA asks to be called at another address";
  }
  switch (status >> 2U & 0x7U) {
    case 0:
      return "success";
    case 1:
      return "bad class or base version";
    case 2:
      return "method not supported";
    case 3:
      return "method and attribute do not go together";
    case 7:
      return "a field of the attribute is invalid";
    default:
      return "a common status this program does not know";
  }
}

Result<SaMad> parse_sa_mad(std::span<const std::uint8_t> bytes) noexcept {
  if (bytes.size() != kMadSize) {
    return fail(
        Error::make(Errc::Malformed, "SA MAD of %zu bytes, expected %zu", bytes.size(), kMadSize));
  }
  const Result<Header> header = parse_header(bytes);
  if (!header) {
    return fail(header.error());
  }
  if (header->mgmt_class != kSaClass || header->class_version != kSaClassVersion) {
    return fail(Error::make(Errc::Malformed,
                            "MAD of class 0x%02x version %u, expected the SA's 0x%02x version %u",
                            header->mgmt_class, header->class_version, kSaClass, kSaClassVersion));
  }
  SaMad sa;
  sa.header = *header;
  sa.rmpp_version = static_cast<std::uint8_t>(kRmppVersion.get(bytes));
  sa.rmpp_type = static_cast<std::uint8_t>(kRmppType.get(bytes));
  sa.rmpp_response_time = static_cast<std::uint8_t>(kRmppResponseTime.get(bytes));
  sa.rmpp_flags = static_cast<std::uint8_t>(kRmppFlags.get(bytes));
  sa.rmpp_status = static_cast<std::uint8_t>(kRmppStatus.get(bytes));
  sa.segment = static_cast<std::uint32_t>(kSegment.get(bytes));
  sa.payload_length = static_cast<std::uint32_t>(kPayloadLength.get(bytes));
  sa.sm_key = kSmKey.get(bytes);
  sa.attribute_offset = static_cast<std::uint16_t>(kAttributeOffset.get(bytes));
  sa.component_mask = kComponentMask.get(bytes);
  std::copy_n(bytes.begin() + SaMad::kDataOffset, SaMad::kDataSize, sa.data.begin());
  return sa;
}

void serialize(const SaMad& sa, Mad& to) noexcept {
  to = {};
  Header header = sa.header;
  header.mgmt_class = kSaClass;
  header.class_version = kSaClassVersion;
  serialize(header, to);
  kRmppVersion.put(to, sa.rmpp_version);
  kRmppType.put(to, sa.rmpp_type);
  kRmppResponseTime.put(to, sa.rmpp_response_time);
  kRmppFlags.put(to, sa.rmpp_flags);
  kRmppStatus.put(to, sa.rmpp_status);
  kSegment.put(to, sa.segment);
  kPayloadLength.put(to, sa.payload_length);
  kSmKey.put(to, sa.sm_key);
  kAttributeOffset.put(to, sa.attribute_offset);
  kComponentMask.put(to, sa.component_mask);
  std::copy(sa.data.begin(), sa.data.end(), to.begin() + SaMad::kDataOffset);
}

SaMad make_sa_request(Method method, Tid tid, const PathRecord& record,
                      std::uint64_t component_mask) noexcept {
  return make_request(method, tid, kAttributePathRecord, record, component_mask);
}

SaMad make_sa_request(Method method, Tid tid, const McMemberRecord& record,
                      std::uint64_t component_mask) noexcept {
  return make_request(method, tid, kAttributeMcMemberRecord, record, component_mask);
}

SaMad make_sa_request(Method method, Tid tid, const NodeRecord& record,
                      std::uint64_t component_mask) noexcept {
  return make_request(method, tid, kAttributeNodeRecord, record, component_mask);
}

SaMad make_sa_request(Method method, Tid tid, const ServiceRecord& record,
                      std::uint64_t component_mask) noexcept {
  return make_request(method, tid, kAttributeServiceRecord, record, component_mask);
}

SaMad make_sa_request(Method method, Tid tid, const InformInfo& info) noexcept {
  return make_request(method, tid, kAttributeInformInfo, info, 0);
}

Result<PathRecord> sa_path_record(const SaMad& sa) noexcept {
  return parse_path_record(std::span(sa.data).first<PathRecord::kSize>());
}

Result<McMemberRecord> sa_mc_member_record(const SaMad& sa) noexcept {
  return parse_mc_member_record(std::span(sa.data).first<McMemberRecord::kSize>());
}

Result<Notice> sa_notice(const SaMad& sa) noexcept {
  return parse_notice(std::span(sa.data).first<Notice::kSize>());
}

}  // namespace wireup::mad

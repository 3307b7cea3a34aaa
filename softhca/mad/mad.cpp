// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/mad/mad.hpp"

#include <algorithm>

#include "softhca/mad/bytes.hpp"

namespace softhca {

MadHeader get_mad_header(std::span<const std::uint8_t> bytes) {
  MadHeader header;
  header.base_version = get8(bytes, 0);
  header.mgmt_class = get8(bytes, 1);
  header.class_version = get8(bytes, 2);
  header.method = get8(bytes, 3);
  header.status = get16(bytes, 4);
  header.class_specific = get16(bytes, 6);
  header.tid = get64(bytes, kTidOffset);
  header.attr_id = get16(bytes, 16);
  header.attr_mod = get32(bytes, 20);
  return header;
}

void put_mad_header(std::span<std::uint8_t> bytes, const MadHeader& header) {
  bytes[0] = header.base_version;
  bytes[1] = header.mgmt_class;
  bytes[2] = header.class_version;
  bytes[3] = header.method;
  put16(bytes, 4, header.status);
  put16(bytes, 6, header.class_specific);
  put64(bytes, kTidOffset, header.tid);
  put16(bytes, 16, header.attr_id);
  put16(bytes, 18, 0);
  put32(bytes, 20, header.attr_mod);
}

RmppHeader get_rmpp_header(std::span<const std::uint8_t> bytes) {
  RmppHeader header;
  header.version = get8(bytes, 24);
  header.type = get8(bytes, 25);
  header.flags = get8(bytes, 26) & 0x7;
  header.status = get8(bytes, 27);
  header.segment = get32(bytes, 28);
  header.payload_length = get32(bytes, 32);
  return header;
}

void put_rmpp_header(std::span<std::uint8_t> bytes, const RmppHeader& header) {
  bytes[24] = header.version;
  bytes[25] = header.type;
  bytes[26] = static_cast<std::uint8_t>((bytes[26] & 0xF8) | (header.flags & 0x7));
  bytes[27] = header.status;
  put32(bytes, 28, header.segment);
  put32(bytes, 32, header.payload_length);
}

std::size_t complete_sa_answer(std::span<std::uint8_t, kMadSize> mad, std::size_t length) {
  RmppHeader rmpp = get_rmpp_header(mad);
  if ((rmpp.flags & kRmppFlagActive) == 0 || rmpp.version != 0 || length < kSaHeaderSize) {
    return kMadSize;
  }
  rmpp.version = 1;
  rmpp.type = kRmppTypeData;
  rmpp.status = 0;
  rmpp.segment = 1;
  rmpp.flags = kRmppFlagActive | kRmppFlagFirst;
  rmpp.payload_length = 0;
  if (length < kMadSize) {
    rmpp.flags |= kRmppFlagLast;
    rmpp.payload_length = static_cast<std::uint32_t>(length - kSaHeaderSize) + kRmppSaHeader;
  }
  put_rmpp_header(mad, rmpp);
  return std::min(length, kMadSize);
}

}  // namespace softhca

// SPDX-License-Identifier: BSD-3-Clause
// The calls of libibumad that name numbers of the MAD header.
#include <arpa/inet.h>
#include <infiniband/umad.h>
#include <infiniband/umad_str.h>
#include <infiniband/umad_types.h>

#include <cstdint>
#include <span>

#include "softhca/mad/mad.hpp"
#include "softhca/umad/export.hpp"

namespace {

constexpr char kUnknown[] = "<unknown>";

struct Name {
  std::uint16_t number;
  const char* text;
};

const char* look_up(std::span<const Name> names, unsigned number) {
  for (const Name& name : names) {
    if (name.number == number) {
      return name.text;
    }
  }
  return nullptr;
}

constexpr Name kClasses[] = {
    {0x01, "Subn"},   {0x81, "Subn"},    {0x03, "SubnAdm"}, {0x04, "Perf"},
    {0x05, "BM"},     {0x06, "DevMgt"},  {0x07, "ComMgt"},  {0x08, "SNMP"},
    {0x10, "DevAdm"}, {0x11, "BootMgt"}, {0x12, "BIS"},     {0x21, "CongestionManagment"},
};

constexpr Name kMethods[] = {
    {0x01, "Get"},  {0x02, "Set"},    {0x81, "GetResp"},     {0x03, "Send"},
    {0x05, "Trap"}, {0x06, "Report"}, {0x07, "TrapRepress"}, {0x86, "ReportResp"},
};

constexpr Name kSaMethods[] = {
    {0x12, "GetTable"},     {0x92, "GetTableResp"}, {0x13, "GetTraceTable"}, {0x14, "GetMulti"},
    {0x94, "GetMultiResp"}, {0x15, "Delete"},       {0x95, "DeleteResp"},
};

constexpr Name kCommonAttributes[] = {
    {0x0001, "Class Port Info"},
    {0x0002, "Notice"},
    {0x0003, "Inform Info"},
};

constexpr Name kSubnAttributes[] = {
    {0x0010, "NodeDescription"},
    {0x0011, "NodeInfo"},
    {0x0012, "SwitchInfo"},
    {0x0014, "GUIDInfo"},
    {0x0015, "PortInfo"},
    {0x0016, "P_KeyTable"},
    {0x0017, "SLtoVLMappingTable"},
    {0x0018, "VLArbitrationTable"},
    {0x0019, "LinearForwardingTable"},
    {0x001A, "RandomForwardingTable"},
    {0x001B, "MulticastForwardingTable"},
    {0x001C, "LinkSpeedWidthPairsTable"},
    {0x001D, "VendorSpecificMadsTable"},
    {0x001E, "HierarchyInfo"},
    {0x0020, "SMInfo"},
    {0x0030, "VendorDiag"},
    {0x0031, "LedInfo"},
    {0x0032, "CableInfo"},
    {0x0033, "PortInfoExtended"},
};

constexpr Name kSaAttributes[] = {
    {0x0011, "NodeRecord"},
    {0x0012, "PortInfoRecord"},
    {0x0013, "SLtoVLMappingTableRecord"},
    {0x0014, "SwitchInfoRecord"},
    {0x0015, "LinearForwardingTableRecord"},
    {0x0016, "RandomForwardingTableRecord"},
    {0x0017, "MulticastForwardingTableRecord"},
    {0x0018, "SMInfoRecord"},
    {0x0019, "LinkSpeedWidthPairsTableRecord"},
    {0x00F3, "InformInfoRecord"},
    {0x0020, "LinkRecord"},
    {0x0030, "GuidInfoRecord"},
    {0x0031, "ServiceRecord"},
    {0x0033, "P_KeyTableRecord"},
    {0x0035, "PathRecord"},
    {0x0036, "VLArbitrationTableRecord"},
    {0x0038, "MCMemberRecord"},
    {0x0039, "TraceRecord"},
    {0x003A, "MultiPathRecord"},
    {0x003B, "ServiceAssociationRecord"},
    {0x003C, "HierarchyInfoRecord"},
    {0x003D, "CableInfoRecord"},
    {0x003E, "PortInfoExtendedRecord"},
};

constexpr Name kCmAttributes[] = {
    {0x0010, "ConnectRequest"},
    {0x0011, "MsgRcptAck"},
    {0x0012, "ConnectReject"},
    {0x0013, "ConnectReply"},
    {0x0014, "ReadyToUse"},
    {0x0015, "DisconnectRequest"},
    {0x0016, "DisconnectReply"},
    {0x0017, "ServiceIDResReq"},
    {0x0018, "ServiceIDResReqResp"},
    {0x0019, "LoadAlternatePath"},
    {0x001A, "AlternatePathResponse"},
    {0x001B, "SuggestAlternatePath"},
    {0x001C, "SuggestPathResponse"},
};

constexpr const char* kSaStatus[] = {
    "Success",
    "No Resources",
    "Request Invalid",
    "No Records",
    "Too Many Records",
    "Invalid GID",
    "Insufficient Components",
    "Request Denied",
    "Priority Suggested",
};

}  // namespace

SOFTHCA_EXPORT const char* umad_class_str(std::uint8_t mgmt_class) {
  if (const char* text = look_up(kClasses, mgmt_class)) {
    return text;
  }
  const bool vendor =
      (mgmt_class >= 0x09 && mgmt_class <= 0x0F) || (mgmt_class >= 0x30 && mgmt_class <= 0x4F);
  if (vendor) {
    return "Vendor";
  }
  return mgmt_class >= 0x10 && mgmt_class <= 0x2F ? "Application" : kUnknown;
}

SOFTHCA_EXPORT const char* umad_method_str(std::uint8_t mgmt_class, std::uint8_t method) {
  if (const char* text = look_up(kMethods, method)) {
    return text;
  }
  const char* text = mgmt_class == softhca::kClassSa ? look_up(kSaMethods, method) : nullptr;
  return text == nullptr ? kUnknown : text;
}

SOFTHCA_EXPORT const char* umad_attribute_str(std::uint8_t mgmt_class, __be16 attr_id) {
  const unsigned attribute = ntohs(attr_id);
  if (const char* text = look_up(kCommonAttributes, attribute)) {
    return text;
  }
  const char* text = nullptr;
  switch (mgmt_class) {
    case softhca::kClassSmLid:
    case softhca::kClassSmDirect:
      text = look_up(kSubnAttributes, attribute);
      break;
    case softhca::kClassSa:
      text = look_up(kSaAttributes, attribute);
      break;
    case softhca::kClassCm:
      text = look_up(kCmAttributes, attribute);
      break;
    default:
      break;
  }
  return text == nullptr ? kUnknown : text;
}

SOFTHCA_EXPORT const char* umad_common_mad_status_str(__be16 be_status) {
  const unsigned status = ntohs(be_status);
  if ((status & UMAD_STATUS_BUSY) != 0) {
    return "Busy";
  }
  if ((status & UMAD_STATUS_REDIRECT) != 0) {
    return "Redirection required";
  }
  switch (status & UMAD_STATUS_INVALID_FIELD_MASK) {
    case UMAD_STATUS_BAD_VERSION:
      return "Bad Version";
    case UMAD_STATUS_METHOD_NOT_SUPPORTED:
      return "Method not supported";
    case UMAD_STATUS_ATTR_NOT_SUPPORTED:
      return "Method/Attribute combo not supported";
    case UMAD_STATUS_INVALID_ATTR_VALUE:
      return "Invalid attribute/modifier field";
    default:
      return "Success";
  }
}

SOFTHCA_EXPORT const char* umad_sa_mad_status_str(__be16 be_status) {
  const unsigned code = ntohs(be_status) >> 8;
  return code < std::size(kSaStatus) ? kSaStatus[code] : "Undefined Error";
}

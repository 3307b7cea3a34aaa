// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/agent/issm_watch.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "softhca/temp_dir.hpp"

namespace softhca {
namespace {

class IssmWatchTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(watch_, nullptr); }

  bool has_news(int wait_ms = 0) {
    pollfd poller{watch_->fd(), POLLIN, 0};
    return ::poll(&poller, 1, wait_ms) == 1;
  }

  /// Looks until there is no news, which must be soon.
  std::vector<PortIndex> settle() {
    std::vector<PortIndex> changed;
    int looks = 0;
    do {
      for (const PortIndex port : watch_->update()) {
        changed.push_back(port);
      }
    } while (has_news() && ++looks < 10);
    EXPECT_LT(looks, 10) << "its own looking is news to it";
    return changed;
  }

  softhca_test::TempDir dir_;
  std::unique_ptr<IssmWatch> watch_ = IssmWatch::create(dir_.path());
};

TEST_F(IssmWatchTest, SeesASubnetManagerComeAndGoAndIsQuietInBetween) {
  EXPECT_TRUE(settle().empty());
  const std::string path = dir_.file("issm/3");
  ASSERT_EQ(::mkfifo(path.c_str(), 0666), 0);
  EXPECT_TRUE(settle().empty());
  const int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  ASSERT_TRUE(has_news(10'000));
  EXPECT_EQ(settle(), std::vector<PortIndex>{3});
  EXPECT_TRUE(watch_->is_open(3));
  EXPECT_FALSE(has_news(50));
  ::close(reader);
  ASSERT_TRUE(has_news(10'000));
  EXPECT_EQ(settle(), std::vector<PortIndex>{3});
  EXPECT_FALSE(watch_->is_open(3));
}

TEST_F(IssmWatchTest, OneThatWasThereBeforeIsFoundAtTheFirstLook) {
  const std::string path = dir_.file("issm/7");
  ASSERT_EQ(::mkfifo(path.c_str(), 0666), 0);
  const int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  watch_ = IssmWatch::create(dir_.path());
  ASSERT_NE(watch_, nullptr);
  EXPECT_EQ(settle(), std::vector<PortIndex>{7});
  ::close(reader);
}

TEST_F(IssmWatchTest, WhatIsNoFifoOrNoPortIsLeftAlone) {
  for (const char* name : {"4", "x", "5x"}) {
    const std::string path = dir_.file(std::string("issm/") + name);
    ::close(::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666));
  }
  EXPECT_TRUE(settle().empty());
  EXPECT_FALSE(watch_->is_open(4));
}

}  // namespace
}  // namespace softhca

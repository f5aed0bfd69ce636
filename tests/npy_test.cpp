#include "data/npy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "kernels/error.h"

namespace dlrm {
namespace {

class NpyTest : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }

  std::string bytes() const {
    std::ifstream file(path_, std::ios::binary);
    return (std::ostringstream() << file.rdbuf()).str();
  }
  void set_bytes(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }

  /// A file of version `major` with this header dict and `values` values.
  void set_file(int major, const std::string& dict, size_t values) const {
    set_file(major, dict, std::vector<uint16_t>(2 * values));
  }
  void set_file(int major, const std::string& dict, const std::vector<uint16_t>& words) const {
    const std::string header = dict + "\n";
    std::string length(major == 1 ? 2 : 4, '\0');
    length[0] = char(header.size());
    set_bytes(std::string("\x93NUMPY") + char(major) + '\0' + length + header +
              std::string(reinterpret_cast<const char*>(words.data()), 2 * words.size()));
  }
  std::string error_of_reading() const {
    try {
      read_npy(path_);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  const std::string path_ = testing::TempDir() + testing::UnitTest::GetInstance()->current_test_info()->name() + ".npy";
};

TEST_F(NpyTest, WritesTheBytesOfNumpySave) {
  write_npy(path_, std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});
  // numpy 2.4: numpy.save(path, numpy.arange(1, 7, dtype='<f4').reshape(2, 3))
  std::string expected = std::string("\x93NUMPY\x01\x00\x76\x00", 10) +
                         "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }" + std::string(58, ' ') + "\n";
  ASSERT_EQ(expected.size(), 128u);
  const float values[] = {1, 2, 3, 4, 5, 6};
  expected.append(reinterpret_cast<const char*>(values), sizeof(values));
  EXPECT_EQ(bytes(), expected);
}

TEST_F(NpyTest, ReadsWhatItWrites) {
  const std::vector<std::vector<int64_t>> shapes = {{}, {0}, {1}, {31}, {33}, {1000}, {0, 3}, {5, 7}, {2, 3, 4, 1}};
  for (const auto& shape : shapes) {
    size_t size = 1;
    for (const int64_t length : shape) size *= size_t(length);
    std::vector<float> values(size);
    for (size_t i = 0; i < size; ++i) values[i] = float(i) / 3.0f;
    write_npy(path_, values, shape);
    const NpyArray array = read_npy(path_);
    EXPECT_EQ(array.shape, shape);
    EXPECT_EQ(array.values, values);
    EXPECT_EQ(bytes().size() - 4 * size, 128u);
  }
}

TEST_F(NpyTest, WritesPieceByPiece) {
  NpyWriter writer(path_, {4});
  writer.append(std::vector<float>{1});
  writer.append({});
  writer.append(std::vector<float>{2, 3, 4});
  writer.close();
  EXPECT_EQ(read_npy(path_).values, (std::vector<float>{1, 2, 3, 4}));
}
TEST_F(NpyTest, ReadsSomeRows) {
  write_npy(path_, std::vector<float>{1, 2, 3, 4, 5, 6}, {3, 2});
  const NpyReader reader(path_);
  std::vector<float> two(4);
  reader.read_rows(1, 2, two.data());
  EXPECT_EQ(two, (std::vector<float>{3, 4, 5, 6}));
  EXPECT_THROW(reader.read_rows(2, 2, two.data()), Error);
  EXPECT_THROW(reader.read_rows(-1, 1, two.data()), Error);
}

TEST_F(NpyTest, ReadsHalfAndDoublePrecision) {
  set_file(1, "{'descr': '<f2', 'fortran_order': False, 'shape': (2,), }", {0x3c00, 0xc100});
  EXPECT_EQ(read_npy(path_).values, (std::vector<float>{1, -2.5}));
  set_file(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }", {0, 0, 0, 0x3ff8, 0, 0, 0, 0xc000});
  EXPECT_EQ(read_npy(path_).values, (std::vector<float>{1.5, -2}));
}

TEST_F(NpyTest, ReadsMatricesInFortranOrder) {
  // 1 2 3 / 4 5 6, in half precision
  set_file(1, "{'descr': '<f2', 'fortran_order': True, 'shape': (2, 3), }",
           {0x3c00, 0x4400, 0x4000, 0x4500, 0x4200, 0x4600});
  EXPECT_EQ(read_npy(path_).values, (std::vector<float>{1, 2, 3, 4, 5, 6}));
  std::vector<float> last(3);
  NpyReader(path_).read_rows(1, 1, last.data());
  EXPECT_EQ(last, (std::vector<float>{4, 5, 6}));
  set_file(1, "{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1, 1), }", 1);
  EXPECT_NE(error_of_reading().find("Fortran order of 3 dimensions"), std::string::npos);
}

TEST_F(NpyTest, ReadsVersions2And3) {
  for (const int major : {2, 3}) {
    set_file(major, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", 3);
    EXPECT_EQ(read_npy(path_).shape, std::vector<int64_t>{3});
  }
}
TEST_F(NpyTest, ReadsOtherSpellingsOfTheHeader) {
  set_file(1, R"({"shape":(2L,3L),"fortran_order":False , "descr" : "<f4"})", 6);
  EXPECT_EQ(read_npy(path_).shape, (std::vector<int64_t>{2, 3}));
}

TEST_F(NpyTest, AFileTruncatedAtAnyByteIsAnError) {
  write_npy(path_, std::vector<float>{1, 2, 3}, {3});
  const std::string good = bytes();
  for (size_t size = 0; size < good.size(); ++size) {
    set_bytes(good.substr(0, size));
    EXPECT_THROW(read_npy(path_), Error) << size << " bytes";
  }
}
TEST_F(NpyTest, AFileWithAnyDamagedByteIsReadOrAnErrorNeverACrash) {
  write_npy(path_, std::vector<float>{1, 2, 3}, {3});
  const std::string good = bytes();
  for (size_t i = 0; i < 128; ++i) {
    for (const char damage : {'\0', '9', '(', '\'', ' ', '\xff'}) {
      std::string bad = good;
      bad[i] = damage;
      set_bytes(bad);
      try {
        read_npy(path_);
      } catch (const Error&) {
      }
    }
  }
}
TEST_F(NpyTest, AFileThatIsTooLongIsAnError) {
  write_npy(path_, std::vector<float>{1, 2, 3}, {3});
  set_bytes(bytes() + 'x');
  EXPECT_NE(error_of_reading().find("expected 140 bytes for the shape (3,), found 141"), std::string::npos);
}
TEST_F(NpyTest, AShapeThatOverflowsIsAnError) {
  set_file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", 0);
  EXPECT_NE(error_of_reading().find("is too large"), std::string::npos);
  set_file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", 0);
  EXPECT_NE(error_of_reading().find("is not one"), std::string::npos);
}
TEST_F(NpyTest, OtherTypesAreRefusedByName) {
  for (const std::string descr : {">f4", "|O", "<i4"}) {
    set_file(1, "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (1,), }", 1);
    EXPECT_NE(error_of_reading().find("expected '<f4', '<f2' or '<f8', found '" + descr + "'"), std::string::npos);
  }
  set_file(1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", 1);
  EXPECT_NE(error_of_reading().find("found a structured type"), std::string::npos);
}
TEST_F(NpyTest, AHeaderWithoutAnEntryIsAnError) {
  set_file(1, "{'descr': '<f4', 'shape': (1,), }", 1);
  EXPECT_NE(error_of_reading().find("lacks"), std::string::npos);
}
TEST_F(NpyTest, OtherFilesAreErrors) {
  set_bytes("PK\3\4 and more bytes");
  EXPECT_NE(error_of_reading().find("not a .npy file"), std::string::npos);
  EXPECT_THROW(read_npy("/nowhere/a.npy"), Error);
  EXPECT_THROW(read_npy(testing::TempDir()), Error);
}

TEST_F(NpyTest, AFullDiskIsAnErrorWithItsReason) {
  try {
    write_npy("/dev/full", std::vector<float>(10), {10});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), std::string("/dev/full: cannot be written: ") + std::strerror(ENOSPC));
  }
}
TEST_F(NpyTest, TooManyOrTooFewValuesAreErrors) {
  EXPECT_THROW(write_npy(path_, std::vector<float>(5), {2, 3}), Error);
  EXPECT_THROW(write_npy(path_, std::vector<float>(7), {2, 3}), Error);
}
TEST_F(NpyTest, ANegativeShapeIsAnError) {
  EXPECT_THROW(NpyWriter(path_, {-1}), Error);
}

}  // namespace
}  // namespace dlrm

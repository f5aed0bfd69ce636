#include "data/pickle.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_map>

#include "kernels/error.h"

namespace dlrm {
namespace {

using Kind = PickleValue::Kind;

constexpr size_t kBlockBytes = 1 << 16;
constexpr size_t kMostValues = size_t(1) << 24;  // far above any state dict's
constexpr uint64_t kMostText = 1 << 20;

/// Bytes of a file, one after the other.
class Cursor {
 public:
  Cursor(const InputFile& file, uint64_t begin, uint64_t end) : file_(file), at_(begin), end_(end) {
    check(begin <= end && end <= file.bytes(), file.path().string(), ": a pickle at byte ", begin,
          " is past the end of the file");
  }

  uint64_t at() const { return at_; }
  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    dlrm::fail(file_.path().string(), ": pickle at byte ", at_, ": ", parts...);
  }
  uint8_t byte() {
    if (at_ >= end_) fail("it is cut short");
    if (at_ < block_begin_ || at_ >= block_begin_ + block_.size()) {
      block_.resize(std::min<uint64_t>(kBlockBytes, end_ - at_));
      file_.read(at_, block_.data(), block_.size());
      block_begin_ = at_;
    }
    return uint8_t(block_[at_++ - block_begin_]);
  }
  /// Little-endian.
  uint64_t number(int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; ++i) value |= uint64_t(byte()) << (8 * i);
    return value;
  }
  std::string text(uint64_t bytes) {
    if (bytes > kMostText || bytes > end_ - at_) fail("a text of ", bytes, " bytes");
    std::string value;
    for (uint64_t i = 0; i < bytes; ++i) value += char(byte());
    return value;
  }
  std::string line() {
    std::string value;
    for (char c = char(byte()); c != '\n'; c = char(byte())) {
      if (value.size() >= kMostText) fail("a line without an end");
      value += c;
    }
    return value;
  }

 private:
  const InputFile& file_;
  uint64_t at_, end_, block_begin_ = 0;
  std::string block_;
};

}  // namespace

const PickleValue* PickleValue::find(std::string_view key) const {
  const std::vector<const PickleValue*>& pairs = kind == Kind::call ? filled : items;
  if (kind != Kind::dict && kind != Kind::call) return nullptr;
  for (size_t i = 0; i + 1 < pairs.size(); i += 2)
    if (pairs[i]->is_text(key)) return pairs[i + 1];
  return nullptr;
}

class Pickle::Reader {
 public:
  Reader(Cursor cursor, std::span<const std::string_view> allowed, std::deque<PickleValue>& values)
      : in_(std::move(cursor)), allowed_(allowed), values_(values) {}

  const PickleValue* run() {
    for (;;) {
      const uint8_t opcode = in_.byte();
      if (opcode == '.') return pop();
      step(opcode);
    }
  }
  uint64_t end() const { return in_.at(); }

 private:
  PickleValue* make(Kind kind) {
    if (values_.size() >= kMostValues) in_.fail("more than ", kMostValues, " values");
    values_.push_back({kind});
    return &values_.back();
  }
  void push(PickleValue* value) { stack_.push_back(value); }
  PickleValue* top() {
    if (stack_.empty() || stack_.size() <= floor()) in_.fail("its stack is empty");
    return stack_.back();
  }
  PickleValue* pop() {
    PickleValue* value = top();
    stack_.pop_back();
    return value;
  }
  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  /// What was pushed since the last mark.
  std::vector<const PickleValue*> pop_mark() {
    if (marks_.empty()) in_.fail("a mark is missing");
    std::vector<const PickleValue*> items(stack_.begin() + std::ptrdiff_t(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }

  void push_text(uint64_t bytes) {
    std::string value = in_.text(bytes);
    PickleValue* made = make(Kind::text);
    made->text = std::move(value);
    push(made);
  }
  void push_integer(int64_t value) {
    PickleValue* made = make(Kind::integer);
    made->integer = value;
    push(made);
  }
  void push_boolean(bool value) {
    PickleValue* made = make(Kind::boolean);
    made->integer = value;
    push(made);
  }
  void push_items(std::vector<const PickleValue*> items) {
    PickleValue* made = make(Kind::list);
    made->items = std::move(items);
    push(made);
  }
  void push_last(size_t count) {
    std::vector<const PickleValue*> items(count);
    for (size_t i = count; i-- > 0;) items[i] = pop();
    push_items(std::move(items));
  }
  void push_global(const std::string& module, const std::string& name) {
    const std::string global = module + " " + name;
    if (std::find(allowed_.begin(), allowed_.end(), global) == allowed_.end())
      in_.fail("it asks for the global '", module, ".", name, "', which this program does not allow in a checkpoint");
    PickleValue* made = make(Kind::global);
    made->text = global;
    push(made);
  }
  void append(std::vector<const PickleValue*> items) {
    PickleValue* list = top();
    if (list->kind != Kind::list) in_.fail("items for what is no list");
    list->items.insert(list->items.end(), items.begin(), items.end());
  }
  void set_items(std::vector<const PickleValue*> items) {
    PickleValue* dict = top();
    if (dict->kind != Kind::dict && dict->kind != Kind::call) in_.fail("keys for what is no dict");
    if (items.size() % 2 != 0) in_.fail("a key without a value");
    std::vector<const PickleValue*>& to = dict->kind == Kind::dict ? dict->items : dict->filled;
    to.insert(to.end(), items.begin(), items.end());
  }
  void memoize(uint64_t index) { memo_[index] = top(); }
  void recall(uint64_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) in_.fail("it recalls value ", index, ", which it did not store");
    push(found->second);
  }

  void step(uint8_t opcode) {
    switch (opcode) {
      case 0x80: {  // PROTO
        const int protocol = in_.byte();
        if (protocol < 2 || protocol > 5) in_.fail("protocol ", protocol, ", expected 2 to 5");
        return;
      }
      case 0x95:  // FRAME
        in_.number(8);
        return;
      case '}':
        return push(make(Kind::dict));
      case ']':
      case ')':
      case 0x8f:  // EMPTY_SET
        return push(make(Kind::list));
      case '(':
        return marks_.push_back(stack_.size());
      case 't':
      case 'l':
        return push_items(pop_mark());
      case 0x85:  // TUPLE1, TUPLE2, TUPLE3
      case 0x86:
      case 0x87:
        return push_last(opcode - 0x84);
      case 'd': {
        std::vector<const PickleValue*> items = pop_mark();
        push(make(Kind::dict));
        return set_items(std::move(items));
      }
      case 'a': {
        const PickleValue* item = pop();
        return append({item});
      }
      case 'e':
      case 0x90:  // ADDITEMS
        return append(pop_mark());
      case 's': {
        const PickleValue* value = pop();
        const PickleValue* key = pop();
        return set_items({key, value});
      }
      case 'u':
        return set_items(pop_mark());
      case 'X':
      case 'T':
      case 'B':
        return push_text(in_.number(4));
      case 0x8c:  // SHORT_BINUNICODE
      case 'U':
      case 'C':
        return push_text(in_.number(1));
      case 'q':
        return memoize(in_.number(1));
      case 'r':
        return memoize(in_.number(4));
      case 0x94:  // MEMOIZE
        return memoize(memo_.size());
      case 'h':
        return recall(in_.number(1));
      case 'j':
        return recall(in_.number(4));
      case 'K':
        return push_integer(int64_t(in_.number(1)));
      case 'M':
        return push_integer(int64_t(in_.number(2)));
      case 'J':
        return push_integer(int32_t(in_.number(4)));
      case 0x8a: {  // LONG1; one that does not fit is a number that nobody here asks for, see torch_file.cpp
        const int bytes = in_.byte();
        std::string digits = in_.text(uint64_t(bytes));
        if (bytes > 8) {
          PickleValue* made = make(Kind::text);
          made->text = std::move(digits);
          return push(made);
        }
        uint64_t value = 0;
        for (int i = 0; i < bytes; ++i) value |= uint64_t(uint8_t(digits[size_t(i)])) << (8 * i);
        if (bytes > 0 && bytes < 8 && (uint8_t(digits.back()) & 0x80)) value |= ~uint64_t(0) << (8 * bytes);
        return push_integer(int64_t(value));
      }
      case 'G': {
        uint64_t bits = 0;
        for (int i = 0; i < 8; ++i) bits = bits << 8 | in_.byte();
        PickleValue* made = make(Kind::real);
        made->real = std::bit_cast<double>(bits);
        return push(made);
      }
      case 'N':
        return push(make(Kind::none));
      case 0x88:
        return push_boolean(true);
      case 0x89:
        return push_boolean(false);
      case 'c': {
        const std::string module = in_.line(), name = in_.line();
        return push_global(module, name);
      }
      case 0x93: {  // STACK_GLOBAL
        const PickleValue* name = pop();
        const PickleValue* module = pop();
        if (name->kind != Kind::text || module->kind != Kind::text) in_.fail("a global whose name is no text");
        return push_global(module->text, name->text);
      }
      case 'R':
      case 0x81: {  // NEWOBJ
        const PickleValue* arguments = pop();
        const PickleValue* callable = pop();
        if (callable->kind != Kind::global || arguments->kind != Kind::list) in_.fail("a call of what is no global");
        PickleValue* made = make(Kind::call);
        made->items = {callable, arguments};
        return push(made);
      }
      case 'b':  // BUILD: attributes, which no value here has
        pop();
        top();
        return;
      case 'Q': {
        const PickleValue* id = pop();
        PickleValue* made = make(Kind::persistent);
        made->items = {id};
        return push(made);
      }
      case '0':
        pop();
        return;
      default:
        in_.fail("opcode ", int(opcode), ", which this program does not know");
    }
  }

  Cursor in_;
  std::span<const std::string_view> allowed_;
  std::deque<PickleValue>& values_;
  std::vector<PickleValue*> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint64_t, PickleValue*> memo_;
};

Pickle::Pickle(const InputFile& file, uint64_t begin, uint64_t end, std::span<const std::string_view> allowed) {
  Reader reader(Cursor(file, begin, end), allowed, values_);
  root_ = reader.run();
  end_ = reader.end();
}

}  // namespace dlrm

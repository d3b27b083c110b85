"""Event files of TensorBoard beside the rows of -monitor csv: events.py FOLDER ROWS.csv [FIRST…]

Reads every record of the folder's files by hand, in the order of their names: lengths and checksums, then the fields of
the protocol buffers. The last value of each step must be the row's, in float32. FIRST: the steps at which sessions begin."""
import csv, os, struct, sys

TABLE = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    TABLE.append(byte)


def masked(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


assert masked(b"123456789") == ((0xE3069283 >> 15 | 0xE3069283 << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    at = 0
    while at < len(data):
        (length,), (head,) = struct.unpack_from("<Q", data, at), struct.unpack_from("<I", data, at + 8)
        assert head == masked(data[at:at + 8]), f"the length at {at} does not have its checksum"
        body = data[at + 12:at + 12 + length]
        assert len(body) == length, f"the record at {at} is torn"
        assert struct.unpack_from("<I", data, at + 12 + length)[0] == masked(body), f"the record at {at} does not have its checksum"
        yield body
        at += length + 16


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def fields(data):
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 2:
            length, at = varint(data, at)
            value, at = data[at:at + length], at + length
            assert len(value) == length, "a field is longer than its message"
        else:
            form = {1: "<d", 5: "<f"}[kind]
            value, at = struct.unpack_from(form, data, at)[0], at + struct.calcsize(form)
        yield key >> 3, value


def files(folder):
    """Events of each, in the order of time: names of one second are in that of processes' numbers, which begin again."""
    all_events = []
    for name in os.listdir(folder):
        assert name.startswith("events.out.tfevents."), name
        with open(os.path.join(folder, name), "rb") as file:
            all_events.append([list(fields(record)) for record in records(file.read())])
    return sorted(all_events, key=lambda events: dict(events[0])[1])


def main(folder, rows, *first):
    values, sessions, clock = {}, [], 0
    for events in files(folder):
        assert dict(events[0])[3] == b"brain.Event:2", "the first record is not the version"
        for event in events[1:]:
            one = dict(event)
            assert one[1] >= clock > -1, "time goes back"
            clock = one[1]
            step = one.get(2, 0)
            if 7 in one:
                assert dict(fields(one[7]))[1] == 1
                sessions.append(step)
                values = {key: value for key, value in values.items() if key[1] < step}
            for _, value in fields(one.get(5, b"")):
                scalar = dict(fields(value))
                values[scalar[1].decode(), step] = scalar[2]
    assert sessions == [int(step) for step in first], f"sessions begin at {sessions}"
    columns = {"loss": "training/loss", "learning_rate": "training/learning_rate", "gradient_norm": "training/gradient_norm",
               "samples_per_second": "training/samples_per_second", "validation_loss": "validation/loss", "perplexity": "validation/perplexity"}
    with open(rows) as file:
        table = list(csv.DictReader(file))
    expected = 0
    for row in table:
        step = int(row["step"])
        assert values[("training/skipped_steps", step)] == 0
        for column, tag in columns.items():
            if row[column] == "":
                assert (tag, step) not in values, f"step {step} has a {tag} that its row has not"
                continue
            expected += 1
            number, found = float(row[column]), values[(tag, step)]
            close = 1e-6 if column != "samples_per_second" else 1e-5  # as many digits as the row has
            assert abs(number - found) <= close * abs(number), f"step {step}: {tag} {found}, row {number}"
    accuracies = sum(tag == "validation/accuracy" for tag, _ in values)
    assert table and len(values) == expected + len(table) + accuracies, "more values than the rows have"
    print(f"{len(table)} rows, {len(values)} values, {accuracies} accuracies")


main(*sys.argv[1:])

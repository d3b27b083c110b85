"""Writes two arrays of NumPy, pictures of random bytes and their classes: images.py FOLDER COUNT SHAPE CLASSES"""
import os, random, sys

folder, count, shape, classes = sys.argv[1], int(sys.argv[2]), [int(n) for n in sys.argv[3].split('x')], int(sys.argv[4])
random.seed(1)


def write(name, kind, shape, parts):
    text = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (kind, tuple(shape))
    text += ' ' * (63 - (10 + len(text)) % 64) + '\n'
    with open(os.path.join(folder, name), 'wb') as file:
        file.write(b'\x93NUMPY\x01\x00' + len(text).to_bytes(2, 'little') + text.encode())
        for part in parts:
            file.write(part)


size = 1
for n in shape:
    size *= n
write('x.npy', '|u1', [count] + shape, (random.randbytes(size) for i in range(count)))
write('labels.npy', '<i8', [count], (random.randrange(classes).to_bytes(8, 'little') for i in range(count)))

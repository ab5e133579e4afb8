"""Sets of images from .npz and .npy files, pickles and the folders of known data sets: the same images as numpy holds, by class;
and what is refused.

    test_sets.py PROGRAM WORK_FOLDER

PROGRAM is tests/reference/data.c."""
import os
import pickle
import shutil
import sys

try:
    import numpy as np
    from PIL import Image
except ImportError as error:
    print(f"skipped: {error.name} is not installed here (scripts/setup_torch.sh makes .venv with it)")
    sys.exit(77)

from data_run import Data

work = os.path.abspath(sys.argv[2])
shutil.rmtree(work, ignore_errors=True)
data = Data(sys.argv[1], work)
CLASSES, EACH, SIDE, SIZE = 3, 6, 12, 2
rng = np.random.default_rng(0)
images = rng.integers(0, 256, (CLASSES * EACH, SIDE, SIDE, 3), dtype=np.uint8)
labels = np.repeat(np.arange(CLASSES), EACH)
by_class = {f"c{k}": images[labels == k] for k in range(CLASSES)}
passed = 0


def at(name):
    path = os.path.join(work, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return path


def as_input(x, channels):
    """What a model gets of uint8 images, in [-1,1]."""
    x = x.astype(np.float32) / 255
    if channels == 1:
        x = (x @ np.array([0.299, 0.587, 0.114], np.float32))[..., None]
    return x * 2 - 1


def holds(path, wanted=images, channels=3, tolerance=1e-5, side=SIDE, **keys):
    """Every set is of one class, each image of it is used once, and all are those that are wanted (one class after another)."""
    global passed
    arrays, said, _ = data.run(path, {"images": ("F32", (SIZE, side, side, channels))}, kind="sets", **keys)
    sets, want = arrays["images"], as_input(wanted, channels)
    assert len(sets) == len(want) // SIZE, f"{path}: {len(sets)} sets"
    assert f"{CLASSES} classes of {EACH} images" in said, f"{path}: {said}"
    used = []
    for number, one in enumerate(sets):
        for image in one:
            distance = np.abs(want - image).reshape(len(want), -1).max(1)
            assert distance.min() <= tolerance, f"{path}: set {number} has an image that is {distance.min()} away from all"
            used.append(int(distance.argmin()))
        assert len({i // EACH for i in used[-SIZE:]}) == 1, f"{path}: set {number} mixes classes"
    assert sorted(used) == list(range(len(want))), f"{path}: used {sorted(used)}"
    passed += 1


def refused(path, says, **keys):
    global passed
    data.refused(path, {"images": ("F32", (SIZE, SIDE, SIDE, 3))}, says, kind="sets", **keys)
    passed += 1


def arrays():
    np.savez(at("labels.npz"), images=images, labels=labels)
    np.savez_compressed(at("packed.npz"), x=images, y=labels.astype(np.int32))
    np.savez(at("classes.npz"), **by_class)
    np.savez(at("planes.npz"), images=np.ascontiguousarray(images.transpose(0, 3, 1, 2)), labels=labels)
    np.savez(at("float.npz"), images=(images / 255).astype(np.float32), labels=labels)
    np.savez(at("signed.npz"), images=(images / 127.5 - 1).astype(np.float32), labels=labels)
    np.savez(at("half.npz"), images=(images / 255).astype(np.float16), labels=labels)
    np.save(at("five.npy"), images.reshape(CLASSES, EACH, SIDE, SIDE, 3))
    for name in ("labels.npz", "packed.npz", "classes.npz", "planes.npz", "float.npz", "signed.npz", "five.npy"):
        holds(at(name))
    holds(at("half.npz"), tolerance=1.1e-3)
    holds(at("labels.npz"), channels=1)
    ink = rng.integers(0, 2, (CLASSES, EACH, SIDE, SIDE)).astype(bool)
    np.save(at("ink.npy"), ink)
    flat = np.repeat(ink.reshape(-1, SIDE, SIDE, 1), 3, -1).astype(np.uint8) * 255
    holds(at("ink.npy"), flat)
    os.makedirs(at("folder"))
    for name, some in by_class.items():
        np.save(at(f"folder/{name}.npy"), some)
    holds(at("folder"))
    np.savez(at("bad.npz"), images=images, labels=labels[:-1])
    refused(at("bad.npz"), "looks like labels of 17 images")
    np.savez(at("bad.npz"), images=images[..., :2])
    refused(at("bad.npz"), "with 1 or 3 channels")
    np.savez(at("bad.npz"), images=images.astype(np.float32))
    refused(at("bad.npz"), "divide them by 255, or save array.astype('uint8')")
    # Which arrays are images and labels is never guessed: by name, by data.array, or not at all.
    other = rng.integers(0, 2, len(labels))
    np.savez(at("named.npz"), split=other, images=images, labels=labels, mean=np.zeros(3, np.float32))
    holds(at("named.npz"))
    np.savez(at("keras.npz"), x_test=images[:6], x_train=images, y_test=labels[:6, None], y_train=labels[:, None])
    refused(at("keras.npz"), "holds several sets of images (x_test, x_train); say which")
    holds(at("keras.npz"), array="x_train")
    refused(at("keras.npz"), "has no array x_val", array="x_val")
    np.savez(at("bad.npz"), a=other, images=images, b=labels)
    refused(at("bad.npz"), "2 arrays may be the labels of images (a is the first)")
    np.savez(at("bad.npz"), images=images, labels=np.eye(CLASSES)[labels])
    refused(at("bad.npz"), "numpy.argmax(labels, 1)")
    np.savez(at("bad.npz"), images=images, labels=np.array(["a", "b", "c"])[labels])
    refused(at("bad.npz"), "it holds texts (<U1), not numbers")
    np.savez(at("bad.npz"), images=images.astype(np.int32))
    refused(at("bad.npz"), "images are uint8")
    refused(at("packed.npz"), "--loader-memory", memory=4000)
    open(at("bad.npz"), "wb").write(open(at("labels.npz"), "rb").read()[:-30])
    refused(at("bad.npz"), "")


def pickles():
    for protocol in range(6):
        pickle.dump({"data": images, "labels": [int(y) for y in labels]}, open(at(f"fs{protocol}.pickle"), "wb"), protocol)
        pickle.dump(by_class, open(at(f"dict{protocol}.pkl"), "wb"), protocol)
        holds(at(f"fs{protocol}.pickle"))
        holds(at(f"dict{protocol}.pkl"))
    pickle.dump({"image_data": images, "class_dict": {f"n{k}": [int(i) for i in np.where(labels == k)[0]] for k in range(CLASSES)}},
                open(at("mini.pkl"), "wb"))
    holds(at("mini.pkl"))
    for protocol in range(6):            # numbers of numpy, as list(array) holds them
        pickle.dump({"data": images, "labels": list(labels)}, open(at(f"np{protocol}.pkl"), "wb"), protocol)
        holds(at(f"np{protocol}.pkl"))
    pickle.dump({"image_data": images, "class_dict": {k: np.where(labels == k)[0] for k in np.unique(labels)}}, open(at("np.pkl"), "wb"))
    holds(at("np.pkl"))
    pickle.dump({"image_data": images, "class_dict": {k: list(np.where(labels == k)[0]) for k in range(CLASSES)}}, open(at("np.pkl"), "wb"))
    holds(at("np.pkl"))
    pickle.dump({k: images[labels == k] for k in np.unique(labels).astype(np.uint8)}, open(at("np.pkl"), "wb"))
    holds(at("np.pkl"))
    pickle.dump({b"data": images, b"labels": labels}, open(at("bytes.pkl"), "wb"))
    holds(at("bytes.pkl"))
    rows = rng.integers(0, 256, (CLASSES * EACH, 3072), dtype=np.uint8)
    pickle.dump({b"data": rows, b"fine_labels": [int(y) for y in labels], b"filenames": [b"x"] * 18}, open(at("train"), "wb"))
    holds(at("train"), rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), side=32)

    class Attack:
        def __reduce__(self):
            return os.system, (f"touch {work}/executed",)
    for value, says in ((Attack(), "not a dict of classes"), ({"a": Attack()}, "no array of numpy"),
                        ({"data": images, "labels": Attack()}, "labels are no list"), ({"data": images, "labels": [1]}, "no list of 18"),
                        ({"data": images, "labels": [1.5] * 18}, "neither a number nor a text"), ([1], "not a dict of classes"), ({}, "not a dict"),
                        ({"a": list(images)}, "is a list of 18; save one array, numpy.stack(x)"), ({"a": images.T}, "C order"), ({"a": (images / 255).astype(">f4")}, "little-endian"),
                        ({"image_data": images, "class_dict": {"a": [18]}}, "beyond the 18"), ({(1, 2): images}, "neither a text nor")):
        pickle.dump(value, open(at("bad.pkl"), "wb"))
        refused(at("bad.pkl"), says)
    assert not os.path.exists(f"{work}/executed"), "a pickle was executed"
    whole = open(at("dict4.pkl"), "rb").read()
    for cut in (0, 1, 50, 900, len(whole) - 1):
        open(at("bad.pkl"), "wb").write(whole[:cut])
        refused(at("bad.pkl"), "")


def image_save(name, array):
    Image.fromarray(array).save(at(name))


def folders():
    for k in range(CLASSES):
        for i in range(EACH):
            image = images[k * EACH + i]
            image_save(f"omniglot/images_background/Alphabet_{k % 2}/character{k:02}/{i}.png", image)
            image_save(f"CUB_200_2011/images/{k:03}.Bird/{i}.png", image)
            image_save(f"mini/images/n{k}_{i}.png", image)
            image_save(f"scenes/{k}/{i}/good.png", image)
            image_save(f"scenes/{k}/{i}/mask.png", image)
    holds(at("omniglot/images_background"))
    refused(at("omniglot"), "omniglot holds images_background/ alone")
    shutil.copytree(at("omniglot/images_background"), at("omniglot/images_evaluation"))
    refused(at("omniglot"), "--set data.holdout_path=")
    for name in ("classes.txt", "images.txt"):
        open(at(f"CUB_200_2011/{name}"), "w").close()
    holds(at("CUB_200_2011"))
    with open(at("mini/all.csv"), "w") as lines:
        lines.write("".join(f"n{k}_{i}.png,n{k}\n" for k in range(CLASSES) for i in range(EACH)))
    holds(at("mini"))                    # the only list beside images/
    shutil.copy(at("mini/all.csv"), at("mini/more.csv"))
    refused(at("mini"), "several lists of classes; name one")
    os.remove(at("mini/all.csv"))
    os.remove(at("mini/more.csv"))
    for part in ("train", "val"):
        with open(at(f"mini/{part}.csv"), "w") as lines:
            lines.write("filename,label\r\n" + "".join(f"n{k}_{i}.png,n{k}\r\n" for k in range(CLASSES) for i in range(EACH)))
    holds(at("mini/train.csv"))
    refused(at("mini"), "mini/train.csv --set data.holdout_path=")
    os.makedirs(at("halves"))
    for part in ("train", "test"):
        shutil.copy(at("dict4.pkl"), at(f"halves/CIFAR_FS_{part}.pickle"))
    refused(at("halves"), "halves/CIFAR_FS_train.pickle --set data.holdout_path=")
    for line, says in (("a.png", ":2: a line holds"), ("a.png,b,c", ":2: a line holds"), ("gone.png,n0", "gone.png")):
        open(at("mini/bad.csv"), "w").write(f"filename,label\n{line}\n")
        try:
            refused(at("mini/bad.csv"), says)
        except AssertionError as error:
            if "exit code 1" not in str(error) or says not in str(error):    # the image is named, not the list
                raise
    holds(at("scenes"), pattern="**/good.png")
    refused(at("scenes"), "match data.pattern **/better.png", pattern="**/better.png")


arrays()
pickles()
folders()
print(f"{passed} passed")

"""The data sets: what they are, on what terms, whom to cite, and the address and checksum of each file.

The bytes of all but ``omniglot-28`` were checked against the commits named here, or digests that others publish; that
the addresses serve them could not be checked (no network).
"""

from sumexp.datasets.declarations import DataFile, Dataset

_BROWN = Dataset(
    name="brown",
    description="Brown corpus: 500 texts of American English printed in 1961, tagged; 1,161,192 tokens",
    licence="may be used for non-commercial purposes (NLTK); redistribution permitted (its README)",
    citation="W. N. Francis and H. Kucera, A Standard Corpus of Present-Day Edited American English, 1964, rev. 1979",
    files=(
        DataFile(
            path="brown/brown.zip",
            url="https://raw.githubusercontent.com/nltk/nltk_data/"
            "5db857e6f7df11eabb5e5665836db9ec8df07e28/packages/corpora/brown.zip",
            sha256="9b275f9b3b95d7bd66ccfb7cd259f445a13bbe5d1f4107aba09fd3e8364bafa6",
            size=3_314_357,
        ),
    ),
    instead="shakespeare",
)

_MULAN = "43f6389095ad71984264db4387a8074b22bc7d4a"

_DELICIOUS = Dataset(
    name="delicious",
    description="Delicious: 16,105 bookmarked web pages, 500 words (present or not) and 983 tags, split 12,920 + 3,185",
    licence="none stated; distributed by the Mulan project for research",
    citation="G. Tsoumakas, I. Katakis and I. Vlahavas, Effective and Efficient Multilabel Classification in Domains "
    "with Large Number of Labels, ECML/PKDD Workshop on Mining Multidimensional Data, 2008",
    files=tuple(
        DataFile(
            path=f"mulan/{name}",
            url=f"https://raw.githubusercontent.com/tsoumakas/mulan/{_MULAN}/data/multi-label/delicious/{name}",
            sha256=sha256,
            size=size,
        )
        for name, sha256, size in (
            ("delicious-train.arff", "030186cdb542ebdd32052fcdbb1ebe30115b3a22518c1b4b198c45eb827aebe1", 3_056_590),
            ("delicious-test.arff", "2dfb01723a819914b0ca83361177ed413ce3f2169851d9f228d4692915d63944", 757_565),
            ("delicious.xml", "4e0c0f93c7d86a39b9fca4aaefaa00e9428f2c80277732dfbf03ca48e2c14da2", 34_303),
        )
    ),
    instead="digits",
)

_DIGITS = Dataset(
    name="digits",
    description="Handwritten digits: 1,797 images of 8 x 8 pixels in ten classes; comes with scikit-learn",
    licence="CC BY 4.0",
    citation="E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI, 1998, doi:10.24432/C50P49",
)

_SHAKESPEARE = Dataset(
    name="shakespeare",
    description="Tiny Shakespeare: 40,000 lines of his plays, 204,062 words; comes with this package",
    licence="public domain",
    citation="W. Shakespeare; chosen by A. Karpathy, char-rnn, 2015 (data/tinyshakespeare/input.txt at 6f9487a)",
)

_MNIST = Dataset(
    name="mnist",
    description="MNIST: 70,000 images of handwritten digits, 28 x 28 grey levels, split 60,000 + 10,000",
    licence="CC BY-SA 3.0, as the documentation of Keras states",
    citation="Y. LeCun, L. Bottou, Y. Bengio and P. Haffner, Gradient-Based Learning Applied to Document Recognition, "
    "Proceedings of the IEEE 86(11), 1998",
    files=tuple(
        DataFile(
            path=f"mnist/{name}",
            url=f"https://storage.googleapis.com/cvdf-datasets/mnist/{name}",
            sha256=sha256,
            size=size,
        )
        for name, sha256, size in (
            (
                "train-images-idx3-ubyte.gz",
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                9_912_422,
            ),
            (
                "t10k-images-idx3-ubyte.gz",
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                1_648_877,
            ),
            ("train-labels-idx1-ubyte.gz", "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c", 28_881),
            ("t10k-labels-idx1-ubyte.gz", "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6", 4_542),
        )
    ),
    instead="digits",
)

_FASHION = "b2617bb6d3ffa2e429640350f613e3291e10b141"

_FASHION_MNIST = Dataset(
    name="fashion-mnist",
    description="Fashion-MNIST: 70,000 images of clothes in ten classes, 28 x 28 grey levels, split 60,000 + 10,000",
    licence="MIT",
    citation="H. Xiao, K. Rasul and R. Vollgraf, Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine "
    "Learning Algorithms, 2017, arXiv:1708.07747",
    files=tuple(
        DataFile(
            path=f"fashion-mnist/{name}",
            url=f"https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/{_FASHION}/data/fashion/{name}",
            sha256=sha256,
            size=size,
        )
        for name, sha256, size in (
            (
                "train-images-idx3-ubyte.gz",
                "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
                26_421_880,
            ),
            (
                "t10k-images-idx3-ubyte.gz",
                "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
                4_422_102,
            ),
            ("train-labels-idx1-ubyte.gz", "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845", 29_515),
            ("t10k-labels-idx1-ubyte.gz", "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5", 5_148),
        )
    ),
)

_BINARIZED_MNIST = Dataset(
    name="binarized-mnist",
    description="Statically binarised MNIST: pixels 0 or 1, drawn once from the grey levels, 50,000 + 10,000 + 10,000",
    licence="none stated; made from MNIST",
    citation="H. Larochelle and I. Murray, The Neural Autoregressive Distribution Estimator, AISTATS 2011; "
    "R. Salakhutdinov and I. Murray, On the Quantitative Analysis of Deep Belief Networks, ICML 2008",
    files=tuple(
        DataFile(
            path=f"binarized-mnist/binarized_mnist_{part}.amat",
            url=f"https://www.cs.toronto.edu/~larocheh/public/datasets/binarized_mnist/binarized_mnist_{part}.amat",
            sha256=sha256,
            size=size,
            packed=True,
        )
        for part, sha256, size in (
            ("train", "ad693b29f94c14277b095f5238ddefbbdaaae0939789dd2f4f0205278cee3e4d", 78_400_000),
            ("valid", "1de3d397c40fe8eeb33dafd4099a1f665ec01e96d9be234aaeeac8a34930e2e2", 15_680_000),
            ("test", "e6687bfea3f820c174f33b7865140b2a2dd2930ef786f35d45795fc193b5ab2c", 15_680_000),
        )
    ),
)

_LAKE = (
    "B. M. Lake, R. Salakhutdinov and J. B. Tenenbaum, Human-Level Concept Learning through Probabilistic Program "
    "Induction, Science 350(6266), 2015"
)

_BITSANDSCRAPS = "b0481240b7eb42393285a93ce7d2f266ff10c62b"

_OMNIGLOT = Dataset(
    name="omniglot",
    description="Omniglot: 1,623 characters of 50 alphabets, each drawn by 20 people, 105 x 105 black and white",
    licence="MIT",
    citation=_LAKE,
    files=tuple(
        DataFile(
            path=f"omniglot/{name}",
            url=f"https://raw.githubusercontent.com/bitsandscraps/omniglot/{_BITSANDSCRAPS}/{name}",
            sha256=sha256,
            size=size,
        )
        for name, sha256, size in (
            ("images_background.npz", "8bf84167413cd00beacdce3fe582f780ab538d8dbef043a6d688f2527bbce199", 3_340_794),
            ("images_evaluation.npz", "0b84c7ffd94c4841c0040e529c86a82eaaccb986d8eadad5673f7991b7475276", 2_415_269),
        )
    ),
)

_OMNIGLOT_28 = Dataset(
    name="omniglot-28",
    description="Omniglot as the literature on variational autoencoders has it: 28 x 28 grey levels, 24,345 + 8,070",
    licence="none stated; made from Omniglot (MIT)",
    citation=f"Y. Burda, R. Grosse and R. Salakhutdinov, Importance Weighted Autoencoders, ICLR 2016; {_LAKE}",
    files=(
        DataFile(
            path="omniglot-28/chardata.mat",
            url="https://raw.githubusercontent.com/yburda/iwae/"
            "78a6075484bd7dd6f47a4bb9880d2295bc7a5220/datasets/OMNIGLOT/chardata.mat",
            # Of this file we have git's tree and not the bytes, so its SHA-256 and size are not known.
            sha256="",
            size=0,
            blob="016a3536ffe5e1d38e42563a18d7a78bfaf643ec",
        ),
    ),
)

CATALOGUE = (
    _BROWN,
    _DELICIOUS,
    _DIGITS,
    _SHAKESPEARE,
    _MNIST,
    _FASHION_MNIST,
    _BINARIZED_MNIST,
    _OMNIGLOT,
    _OMNIGLOT_28,
)
"""Every data set."""

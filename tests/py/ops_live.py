"""Every operator case against PyTorch as installed here, the large ones included.

    ops_live.py TEST_OPS WORK_FOLDER
"""
import os
import subprocess
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, here)
import find_torch  # noqa: F401,E402

test_ops, work = sys.argv[1], sys.argv[2]
os.makedirs(f"{work}/ref", exist_ok=True)
dump = f"{work}/cases.safetensors"
subprocess.run([test_ops, "--dump", dump], check=True)
subprocess.run([sys.executable, os.path.join(here, "..", "ops", "reference.py"), dump, f"{work}/ref", "--live"], check=True,
               stdout=subprocess.DEVNULL)
sys.exit(subprocess.run([test_ops, "--refs", f"{work}/ref"]).returncode)

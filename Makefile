# The short words. CMake and Ninja do the building; scripts/setup.sh installs what is missing.
BUILD ?= build
PREFIX ?= /usr/local
PYTHON ?= $(shell test -x .venv/bin/python && echo .venv/bin/python || echo python3)

.PHONY: all setup media mpi build install test check torture soak zoo demo gallery bench docs-check words warnings fuzz cuda release test-cuda asan valgrind format count clean

all: build

setup:
	@scripts/setup.sh

build: setup
	@cmake -S . -B $(BUILD) -G Ninja $(CMAKE_FLAGS) > $(BUILD).log 2>&1 || { cat $(BUILD).log; exit 1; }
	@rm -f $(BUILD).log
	@ninja -C $(BUILD)

media:                          ## the plugins for video and audio, with the packages they need
	@scripts/setup_media.sh
	@$(MAKE) build

mpi:                            ## the plugins for runs of several ranks, with Open MPI, MPICH and Slurm
	@scripts/setup_mpi.sh
	@$(MAKE) build

install: build                  ## program, kernels, library, recipes, profiles and tokens below $(PREFIX)
	@DESTDIR=$(DESTDIR) cmake --install $(BUILD) --prefix $(PREFIX) > $(BUILD)/install.log || { cat $(BUILD)/install.log; exit 1; }
	@echo "installed below $(DESTDIR)$(PREFIX); $(BUILD)/install_manifest.txt lists the files"

test: build                     ## everything that must hold on this machine; OP=conv: one operator
ifdef OP
	@$(BUILD)/test_ops --only $(OP)
	@$(BUILD)/test_ops --only $(OP) --backend builtin
else
	@scripts/check_rooms.py --build $(BUILD)
	@scripts/run_tests.sh $(BUILD)
endif

check: build asan valgrind words docs-check warnings  ## slower: words, names and format, warnings on two compilers, sanitizers, valgrind
	@scripts/check_walk.py
	@scripts/check_format.sh
	@scripts/check_python.sh

words: build
	@scripts/check_words.py --program $(BUILD)/plimsoll

warnings: setup
	@scripts/check_warnings.sh

asan: setup
	@scripts/check_sanitizers.sh

valgrind: setup
	@scripts/check_valgrind.sh

zoo: build                      ## every public model of ../shared/zoo and tests/import/zoo_more.py against PyTorch, about an hour
	@$$(scripts/setup_zoo.sh) tests/import/zoo.py $(BUILD) $(BUILD)/zoo --all

demo: build                     ## the main job, on this machine, in about two minutes
	@scripts/demo.sh $(BUILD)

gallery: build                  ## trains every small recipe, about half an hour; images to docs/user/gallery
	@rm -rf $(BUILD)/gallery
	@scripts/gallery.sh $(BUILD)

bench: build                    ## ours against PyTorch and oneDNN, planner and layout, as tables
	@scripts/bench.sh $(BUILD)

cuda:                           ## the CUDA plugin for the GPU that is here: fetches its libraries, builds it beside the program
	@scripts/setup_cuda.sh
	@$(MAKE) build

release:                        ## program and plugin for every supported GPU, in build-release
	@scripts/setup_cuda.sh
	@$(MAKE) build BUILD=build-release CMAKE_FLAGS="$(CMAKE_FLAGS) -DPLIMSOLL_RELEASE=ON"

test-cuda: cuda                 ## every operator and small system on the GPU; says so where there is none
	@scripts/test_cuda.sh $(BUILD)

docs-check: build               ## what README and docs say: commands are run, bytes and tables compared, times looked up
	@$(PYTHON) scripts/docs_check.py $(BUILD)

fuzz:                           ## every parser, 60 seconds each
	@scripts/setup_fuzz.sh
	@scripts/fuzz.sh 60

torture: build                  ## 100 kills, and every system call of a run failing once in three ways, ten minutes
	@scripts/setup_test_tools.sh
	@python3 tests/cli/torture.py $(BUILD)/plimsoll $(BUILD)/torture --kills 100 --every 1

soak: build                     ## 20,000 steps: memory, descriptors and step time stay the same, two minutes
	@python3 scripts/soak.py $(BUILD)/plimsoll $(BUILD)/soak

format:                         ## src, tests and bench as .clang-format says
	@scripts/format.sh

count:                          ## lines per room
	@for room in src/*/; do printf '%-16s %6d\n' "$$room" "$$(cat $$(find $$room -type f) /dev/null | wc -l)"; done

clean:
	rm -rf build build-*

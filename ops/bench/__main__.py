"""`make bench`: every measurement there is, one after the other. Bounded in count and time; figures vary with the machine."""

from ops.bench.drain import main

main()

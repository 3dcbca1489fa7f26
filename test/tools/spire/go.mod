// SPIRE is the other implementation that the federation, join and Workload API tests run against.
// go.sum is SPIRE's own, with its own two lines: it holds every checksum that its build needs.
module hansa.dev/test/tools/spire

go 1.25.3

require github.com/spiffe/spire v1.13.3

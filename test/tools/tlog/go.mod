module hansa.dev/test/tools/tlog

go 1.25

require golang.org/x/mod v0.30.0

//go:build tools

package tools

import _ "github.com/spiffe/spire-controller-manager/cmd"

// The only place that wires everything: which planes there are, and which commands.

import packageJson from '../package.json' with { type: 'json' };
import { grantCommand } from './cli/grant.ts';
import { joinCommand } from './cli/join.ts';
import { peerCommand } from './cli/peer.ts';
import { processIo } from './cli/process-io.ts';
import { runCli } from './cli/program.ts';
import { statusCommand } from './cli/status.ts';
import { svidCommand } from './cli/svid.ts';
import { trustCommand } from './cli/trust.ts';
import { peeringPlane } from './peering/plane.ts';
import { trustPlane } from './trust/plane.ts';

process.exitCode = await runCli(process.argv.slice(2), processIo(), {
  version: packageJson.version,
  commands: [statusCommand, peerCommand, grantCommand, trustCommand, svidCommand, joinCommand],
  planes: [trustPlane, peeringPlane],
});

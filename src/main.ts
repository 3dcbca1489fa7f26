// The only place that wires everything: which kinds there are, which planes, which commands.

import packageJson from '../package.json' with { type: 'json' };
import { allKinds } from './api/kinds/all-kinds.ts';
import { createRegistry } from './api/registry.ts';
import { grantCommand } from './cli/grant.ts';
import { joinCommand } from './cli/join.ts';
import { peerCommand } from './cli/peer.ts';
import { processIo } from './cli/process-io.ts';
import { runCli } from './cli/program.ts';
import { statusCommand } from './cli/status.ts';
import { svidCommand } from './cli/svid.ts';
import { trustCommand } from './cli/trust.ts';

process.exitCode = await runCli(process.argv.slice(2), processIo(), {
  registry: createRegistry(allKinds),
  version: packageJson.version,
  commands: [statusCommand, peerCommand, grantCommand, trustCommand, svidCommand, joinCommand],
  planes: async (trust) => {
    const [{ trustPlane }, { peeringPlane }] = await Promise.all([
      import('./trust/plane.ts'),
      import('./peering/plane.ts'),
    ]);
    return [trustPlane(trust), peeringPlane];
  },
});

// The entry point: lists the planes and starts the command line.

import packageJson from '../package.json' with { type: 'json' };
import { processIo } from './cli/process-io.ts';
import { runCli } from './cli/program.ts';
import { authPlane } from './auth/plane.ts';
import { kubernetesPlane } from './kubernetes/plane.ts';
import { peeringPlane } from './peering/plane.ts';
import { trustPlane } from './trust/plane.ts';

process.exitCode = await runCli(process.argv.slice(2), processIo(), {
  version: packageJson.version,
  planes: [trustPlane, peeringPlane, authPlane, kubernetesPlane],
});

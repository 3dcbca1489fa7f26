// The entry point of a process that a command has restarted (`Io.restart`). It loads the rest of that
// command, and neither the command line nor the planes. The last argument says what to run. The others
// are the words that the user typed, so that lists of processes show them.

import packageJson from '../../package.json' with { type: 'json' };
import { type Continuation, continueCommand } from './continue-command.ts';
import { exitCodeAfter, exitCodeOfReturn } from './exit-code-after.ts';
import { standardOutput } from './output/standard-output.ts';
import { processIo } from './process-io.ts';

const io = processIo();
const kit = { ...standardOutput(io), io, version: packageJson.version };
process.exitCode = await exitCodeAfter(kit, async () => {
  await continueCommand(kit, JSON.parse(process.argv.at(-1) ?? '') as Continuation);
  return exitCodeOfReturn(kit);
});

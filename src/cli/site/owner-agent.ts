// Connects to the admin socket of a data folder, and makes sure that the user who runs the site listens there.

import { once } from 'node:events';
import { statSync } from 'node:fs';
import { Agent } from 'node:http';
import { createConnection, type Socket } from 'node:net';
import { dirname } from 'node:path';
import type { Duplex } from 'node:stream';

type Connected = (error: Error | null, stream?: Duplex) => void;

/** Writes nothing before it knows who listens: a socket that another user put there would get our secrets. */
export class OwnerAgent extends Agent {
  constructor() {
    super({ keepAlive: true });
  }

  override createConnection(
    { socketPath }: { readonly socketPath?: string },
    callback?: (error: Error | null, stream: Duplex) => void,
  ): undefined {
    void connect(String(socketPath), callback as Connected);
  }
}

async function connect(path: string, done: Connected): Promise<void> {
  const socket = createConnection(path);
  try {
    await once(socket, 'connect');
    await refuseStranger(socket, path);
  } catch (error) {
    socket.destroy();
    done(error as Error);
    return;
  }
  done(null, socket);
}

/** Root may manage the site of another user, who also owns the data folder. */
async function refuseStranger(socket: Socket, path: string): Promise<void> {
  // Imported here, so that commands that use a URL do not load it.
  const { listenerUser } = await import('../../core/plane/socket-option.ts');
  const own = process.geteuid?.();
  const user = listenerUser(socket);
  const owner = statSync(dirname(path)).uid;
  if (own === undefined || user === own || (own === 0 && user === owner)) return;
  throw new Error(
    `user ${user ?? 'unknown'} listens there, and you are user ${own}. Run the command as the user that runs the site, or name another folder with --data-dir`,
  );
}

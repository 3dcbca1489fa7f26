// The layout of help pages: a command lists only its own options, and `hansa --help` the global ones.

import { type Command, Help } from 'commander';
import { replacedBy } from '../root-command.ts';

/** Replaces the list of global options on every help page except that of `hansa`. */
const globalOptionsLine = 'Global options (--data-dir, --site, --yes and others): hansa --help';

export function formatHelp(command: Command, helper: Help): string {
  const text = Help.prototype.formatHelp.call(helper, command, helper);
  if (command.parent === null) return text;
  return `${text}${replacedLines(command)}\n${globalOptionsLine}\n`;
}

function replacedLines(command: Command): string {
  return replacedBy(command)
    .map(
      ({ long }) =>
        `\n${long} after ${pathOf(command)} is the option above. The global ${long} stands before it: hansa ${long} NAME …\n`,
    )
    .join('');
}

function pathOf(command: Command): string {
  const { parent } = command;
  return parent === null || parent.parent === null
    ? command.name()
    : `${pathOf(parent)} ${command.name()}`;
}

/** For the reference page, which mentions the global options once at its top. */
export function withoutGlobalOptionsLine(page: string): string {
  return page.replace(`\n${globalOptionsLine}\n`, '');
}

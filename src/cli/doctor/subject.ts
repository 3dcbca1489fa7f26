// `hansa doctor` for one subject that a flag names, such as `--peer`: the flags, and the checks that
// planes add to each subject. Findings can contain text of a hostile site, so all text is made printable.

import type { Command } from 'commander';
import { printable } from '../../core/command/columns.ts';
import { usageError } from '../../core/command/usage-error.ts';
import { HansaError } from '../../core/errors/error.ts';
import { type DoctorSubject, type Finding, inOrder } from '../../core/plane/doctor.ts';
import type { Plane } from '../../core/plane/plane.ts';
import type { SiteClient } from '../../core/plane/site-client.ts';
import type { Cli } from '../cli.ts';

export interface Chosen {
  readonly subject: DoctorSubject;
  readonly name: string;
}

/** The subjects of all planes, without duplicates. */
export function subjectsOf(planes: readonly Plane[]): readonly DoctorSubject[] {
  const checks = planes.flatMap(({ doctor }) => doctor?.subjects ?? []);
  return [...new Set(checks.map(({ subject }) => subject))];
}

/** The subject that a flag names; undefined if there is no such flag. */
export function chosenSubject(
  subjects: readonly DoctorSubject[],
  command: Command,
): Chosen | undefined {
  const options = command.opts<Readonly<Record<string, unknown>>>();
  const [chosen, other] = subjects.flatMap((subject) => {
    const given = options[subject.flag];
    return typeof given === 'string' ? [{ subject, name: subject.parse(given) }] : [];
  });
  if (chosen === undefined || other === undefined) return chosen;
  throw usageError(`Give either --${chosen.subject.flag} or --${other.subject.flag}, not both.`);
}

export async function examineSubject(
  { planes, io }: Pick<Cli, 'planes' | 'io'>,
  client: SiteClient,
  { subject, name }: Chosen,
): Promise<readonly Finding[]> {
  const checks = inOrder(
    planes
      .flatMap(({ doctor }) => doctor?.subjects ?? [])
      .filter((check) => check.subject === subject),
  );
  const visit = { client, clock: io.clock };
  const answers = await Promise.all(checks.map((check) => check.run(visit, name)));
  if (answers.every((answer) => answer === undefined)) {
    const kinds = checks.map(({ what }) => `no ${what}`).join(' and ');
    const lists = checks.map(({ listedBy }) => listedBy).join(', ');
    throw new HansaError(
      'HANSA_NOT_FOUND',
      `This site has ${kinds} ${name}. To list them: ${lists}.`,
    );
  }
  return answers
    .flatMap((answer) => answer ?? [])
    .map((finding) => ({
      ...finding,
      text: printable(finding.text),
      ...(finding.remedy === undefined ? {} : { remedy: printable(finding.remedy) }),
    }));
}

import { leagueScenario } from './league-scenario.ts';
import { simulationTest } from './seeds.ts';

simulationTest(leagueScenario, 25);

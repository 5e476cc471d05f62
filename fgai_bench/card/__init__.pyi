from .card import Card as Card
from .schema import CardFile as CardFile
